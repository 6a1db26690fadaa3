// Reading: where it begins, what it skips, how it waits.
'use strict'

const {
  START_MS, createTopic, filled, gathering, holds, pause, range, readFrom, same, textOf, until, values, withAdmin,
  withProducer,
} = require('./scenario')

// Runs `use` with a reader of the topic that has begun.
const reading = async (scenario, options, use) => {
  const reader = gathering(scenario, options)
  await reader.start()
  try {
    await use(reader)
  } finally {
    await reader.stop()
  }
}

const nothingComes = async reader => {
  const before = reader.got.length
  await pause(700)
  same('records that came', reader.got.length - before, 0)
}

const earliestLatest = async scenario => {
  const topic = await filled(scenario, 10)
  same('from the earliest', textOf(await readFrom(scenario, topic, 10)), values(0, 0, 10))
  await reading(scenario, { topics: [topic], fromBeginning: false }, async late => {
    await nothingComes(late)
    await scenario.ask('fill', { topic, count: 5, first: 10 })
    await until('5 records', () => late.got.length >= 5)
    same('from the latest', textOf(late.got), values(0, 10, 15))
  })
}

const seekOffset = async scenario => {
  const topic = await filled(scenario, 100)
  await reading(scenario, { topics: [topic] }, async reader => {
    await until('all records', () => reader.got.length >= 100)
    for (const offset of [60, 3, 99]) {
      reader.got.length = 0
      reader.consumer.seek({ topic, partition: 0, offset: `${offset}` })
      await until(`the end from ${offset}`, () => reader.got.length >= 100 - offset)
      same(`from ${offset}`, textOf(reader.got), values(0, offset, 100))
    }
  })
}

const seekTime = async scenario => {
  const topic = await filled(scenario, 100, 1, { first_timestamp_ms: START_MS, step_ms: 10 })
  await withAdmin(scenario, async admin => {
    // For a time after the last record kafkajs gives the end.
    for (const [after, wanted] of [[-5, '0'], [500, '50'], [501, '51'], [5000, '100']]) {
      const found = await admin.fetchTopicOffsetsByTimestamp(topic, START_MS + after)
      same(`offset for ${after} ms`, found, [{ partition: 0, offset: wanted }])
    }
  })
}

const outOfRange = async scenario => {
  const topic = await filled(scenario, 10)
  await reading(scenario, { topics: [topic] }, async reader => {
    await until('all records', () => reader.got.length >= 10)
    reader.got.length = 0
    reader.consumer.seek({ topic, partition: 0, offset: '1000' })
    await until('all records again', () => reader.got.length >= 10)
    same('from the earliest', textOf(reader.got), values(0, 0, 10))
  })
}

const smallFetches = async scenario => {
  const topic = await createTopic(scenario, 2)
  const payloads = range(0, 10).map(number => Buffer.alloc(50000, number))
  await withProducer(scenario, async producer => {
    for (const value of payloads) {
      await producer.send({ topic, messages: [{ value, partition: 0 }, { value, partition: 1 }] })
    }
  })
  const got = await readFrom(scenario, topic, 20, { maxBytesPerPartition: 1000, maxBytes: 1000 })
  for (const partition of [0, 1]) {
    const mine = got.filter(record => record.partition === partition)
    const isWhole = mine.length === 10 && mine.every((record, at) => record.value.equals(payloads[at]))
    holds(`records of ${partition} are not whole or not in order`, isWhole)
  }
}

const pauseResume = async scenario => {
  const topic = await filled(scenario, 5, 2)
  await reading(scenario, { topics: [topic] }, async reader => {
    await until('all records', () => reader.got.length >= 10)
    reader.got.length = 0
    reader.consumer.pause([{ topic, partitions: [0] }])
    for (const partition of [0, 1]) await scenario.ask('fill', { topic, count: 5, partition, first: 5 })
    await until('5 records', () => reader.got.length >= 5)
    await nothingComes(reader)
    same('while 0 is paused', textOf(reader.got), values(1, 5, 10))
    reader.got.length = 0
    reader.consumer.resume([{ topic, partitions: [0] }])
    await until('5 records', () => reader.got.length >= 5)
    same('resumed', textOf(reader.got), values(0, 5, 10))
  })
}

const pattern = async scenario => {
  const topics = [await createTopic(scenario, 1, { suffix: '-a' }), await createTopic(scenario, 1, { suffix: '-b' })]
  for (const topic of topics) await scenario.ask('fill', { topic, count: 3 })
  await reading(scenario, { topics: [new RegExp(`^${scenario.name}-[a-z]$`)] }, async reader => {
    await until('6 records', () => reader.got.length >= 6)
    same('topics', [...new Set(reader.got.map(record => record.topic))].sort(), topics)
  })
}

const readCommitted = async scenario => {
  const topic = await filled(scenario, 20)
  same('values', textOf(await readFrom(scenario, topic, 20, { readUncommitted: false })), values(0, 0, 20))
}

// The broker closes what says nothing: the producer, whose connection is only for it.
const longIdle = async scenario => {
  const topic = await createTopic(scenario)
  await reading(scenario, { topics: [topic] }, reader =>
    withProducer(scenario, async producer => {
      await producer.send({ topic, messages: [{ value: 'before' }] })
      await until('the first record', () => reader.got.length === 1)
      reader.consumer.pause([{ topic }])
      await pause(3000)
      await producer.send({ topic, messages: [{ value: 'after' }] })
      reader.consumer.resume([{ topic }])
      await until('the second record', () => reader.got.length === 2)
      same('values', textOf(reader.got), ['before', 'after'])
    }))
}

module.exports = {
  scenarios: {
    earliest_latest: earliestLatest, seek_offset: seekOffset, seek_time: seekTime, out_of_range: outOfRange,
    small_fetches: smallFetches, pause_resume: pauseResume, pattern, read_committed: readCommitted, long_idle: longIdle,
  },
  lacks: {},
  partly: {
    pattern: 'kafkajs looks at the pattern once, when it subscribes',
    out_of_range: 'kafkajs has no policy of an error',
    long_idle: 'a paused consumer of kafkajs continues with its heartbeats',
  },
}
