// Consumer groups: who has what, and every record once whoever comes and goes.
'use strict'

const { createTopic, filled, gathering, pause, range, same, textOf, until, values, withAdmin } = require('./scenario')

const PARTITIONS = 6

// A record counts when its offset is committed: if that fails, it comes again to whoever has the partition then.
const member = (scenario, topic) => {
  const onMessage = (record, consumer) =>
    consumer.commitOffsets([{ topic, partition: record.partition, offset: `${record.number + 1}` }])
  const started = gathering(scenario, { topics: [topic], onMessage, sessionTimeout: 6000, rebalanceTimeout: 10000 })
  started.owned = 0
  started.consumer.on(started.consumer.events.GROUP_JOIN, ({ payload }) => {
    started.owned = (payload.memberAssignment[topic] || []).length
  })
  return started
}

const settle = members => {
  const share = PARTITIONS / members.length
  return until(`${members.length} members with ${share} partitions each`, () => members.every(each => each.owned === share), 30)
}

const fillAll = async (scenario, topic, from, to) => {
  for (const partition of range(0, PARTITIONS)) await scenario.ask('fill', { topic, count: to - from, partition, first: from })
}

// Two members, then a third while records are on their way, then the first goes.
const rebalance = async scenario => {
  const topic = await createTopic(scenario, PARTITIONS)
  const members = []
  const add = async () => {
    members.push(member(scenario, topic))
    await members[members.length - 1].start()
  }
  try {
    await add()
    await add()
    await settle(members)
    await fillAll(scenario, topic, 0, 20)
    await add()
    await settle(members)
    await fillAll(scenario, topic, 20, 40)
    await members[0].stop()
    await settle(members.slice(1))
    await fillAll(scenario, topic, 40, 60)
    const got = () => members.flatMap(each => each.got)
    await until('all records', () => got().length >= 60 * PARTITIONS, 30)
    await pause(300)
    same('records', textOf(got()).sort(), range(0, PARTITIONS).flatMap(each => values(each, 0, 60)).sort())
  } finally {
    for (const each of members) await each.stop()
  }
}

const manualCommit = async scenario => {
  const topic = await filled(scenario, 10, 2)
  await withAdmin(scenario, async admin => {
    const offsets = async () => {
      const [{ partitions }] = await admin.fetchOffsets({ groupId: scenario.name, topics: [topic] })
      return partitions.map(({ partition, offset, metadata }) => [partition, offset, metadata || '']).sort()
    }
    same('before', await offsets(), [[0, '-1', ''], [1, '-1', '']])
    const first = gathering(scenario, { topics: [topic] })
    await first.start()
    await first.consumer.commitOffsets([{ topic, partition: 0, offset: '4', metadata: 'märz' }])
    same('committed', await offsets(), [[0, '4', 'märz'], [1, '-1', '']])
    await first.stop()
    const follower = gathering(scenario, { topics: [topic] })
    await follower.start()
    await until('16 records', () => follower.got.length >= 16)
    same('from there', textOf(follower.got.filter(record => record.partition === 0)), values(0, 4, 10))
    await follower.stop()
  })
}

const groupRestart = async scenario => {
  const topic = await filled(scenario, 50)
  const commit = (record, consumer) => consumer.commitOffsets([{ topic, partition: 0, offset: `${record.number + 1}` }])
  const reader = gathering(scenario, { topics: [topic], onMessage: commit })
  await reader.start()
  await until('the first records', () => reader.got.length >= 50)
  await scenario.ask('kill')
  await scenario.ask('start')
  await scenario.ask('fill', { topic, count: 50, first: 50 })
  await until('records after the restart', () => reader.got.length >= 100, 40)
  await reader.stop()
  same('values', textOf(reader.got), values(0, 0, 100))
  await withAdmin(scenario, async admin => {
    const [{ partitions }] = await admin.fetchOffsets({ groupId: scenario.name, topics: [topic] })
    same('committed', partitions.map(each => each.offset), ['100'])
  })
}

module.exports = {
  scenarios: { rebalance, manual_commit: manualCommit, group_restart: groupRestart },
  lacks: {
    cooperative: 'kafkajs has no cooperative rebalancing',
    static_member: 'kafkajs has no static membership',
    kip848: 'kafkajs has the classic protocol only',
    share_group: 'kafkajs has no share groups',
  },
  partly: {},
}
