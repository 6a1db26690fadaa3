// A writer of numbered records with franz-go, as tests/support/kafka/numbered_writer.py describes it:
//
//	numbered_writer SERVERS TOPIC NAME PER_SECOND
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	atATime = 10
	timeMax = time.Minute
)

func main() {
	servers, topic, name := os.Args[1], os.Args[2], os.Args[3]
	perSecond, err := strconv.Atoi(os.Args[4])
	must(err)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(servers, ",")...),
		kgo.DefaultProduceTopic(topic),
		kgo.ProducerLinger(2*time.Millisecond),
		kgo.RecordDeliveryTimeout(timeMax),
	)
	must(err)
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	rest := atATime * time.Second / time.Duration(perSecond)
	for number := 0; ; {
		select {
		case <-ended:
			must(client.Flush(context.Background()))
			client.Close()
			return
		case <-time.After(rest):
		}
		for range atATime {
			value := fmt.Sprintf("%s %d", name, number)
			number++
			client.Produce(context.Background(), &kgo.Record{Key: []byte(name), Value: []byte(value)}, say)
		}
	}
}

var speaking sync.Mutex

func say(record *kgo.Record, err error) {
	must(err)
	speaking.Lock()
	defer speaking.Unlock()
	line, err := json.Marshal([]any{record.Partition, record.Offset, string(record.Value)})
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
