// A member of a consumer group of KIP-848 with franz-go, for tests/support/groups/reading_members.py:
//
//	group_member SERVERS TOPIC GROUP NAME
//
// It reads and commits until its stdin ends, and writes a line of JSON for what it gets, gives up and reads:
//
//	["takes", nanoseconds since 1970, [partition, ...]]
//	["gives up", nanoseconds since 1970, [partition, ...]]
//	["reads", nanoseconds since 1970, [[partition, offset], ...]]
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const pollTime = 200 * time.Millisecond

func main() {
	servers, topic, group, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(servers, ",")...),
		kgo.ClientID(name),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.ServerSideBalancer(),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			say("takes", numbers(given[topic]))
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, taken map[string][]int32) {
			_ = client.CommitUncommittedOffsets(ctx) // what was read is committed before another member goes on
			say("gives up", numbers(taken[topic]))
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			say("gives up", numbers(lost[topic]))
		}),
	)
	must(err)
	ending, end := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
	for ending.Err() == nil {
		polling, over := context.WithTimeout(ending, pollTime)
		polled := client.PollFetches(polling)
		over()
		records := [][2]int64{}
		polled.EachRecord(func(record *kgo.Record) {
			records = append(records, [2]int64{int64(record.Partition), record.Offset})
		})
		if len(records) > 0 {
			say("reads", records)
			_ = client.CommitUncommittedOffsets(context.Background()) // a refused one comes with the next
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
}

// numbers returns a list where there is none: the first assignment may be empty.
func numbers(partitions []int32) []int32 {
	return append([]int32{}, partitions...)
}

var speaking sync.Mutex

func say(what string, of any) {
	speaking.Lock()
	defer speaking.Unlock()
	line, err := json.Marshal([]any{what, time.Now().UnixNano(), of})
	must(err)
	_, err = os.Stdout.Write(append(line, '\n'))
	must(err)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
