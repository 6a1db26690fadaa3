// What every scenario uses: clients, sending, reading, and how it says what is not as it should be.
'use strict'

const { Kafka, logLevel } = require('kafkajs')

const SECONDS_MAX = 20
const MIB = 1 << 20
// Of records whose times are looked up: an hour ago, lest they be too old to be kept.
const START_MS = Math.floor(Date.now() / 1000 - 3600) * 1000

class Mismatch extends Error {}

const plain = value => (Buffer.isBuffer(value) ? `<${value.toString('latin1')}>` : value)
const short = value => {
  const text = JSON.stringify(value, (_, each) => (each && each.type === 'Buffer' ? plain(Buffer.from(each.data)) : each))
  return text && text.length > 120 ? `${text.slice(0, 120)}…` : text
}

const same = (what, got, wanted) => {
  if (JSON.stringify(got) !== JSON.stringify(wanted)) throw new Mismatch(`${what}: ${short(got)} instead of ${short(wanted)}`)
}

const holds = (what, condition) => {
  if (!condition) throw new Mismatch(what)
}

const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

const until = async (what, condition, secondsMax = SECONDS_MAX) => {
  const deadline = Date.now() + secondsMax * 1000
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Mismatch(`not within ${secondsMax} s: ${what}`)
    await pause(50)
  }
}

const refused = async (type, call) => {
  try {
    await call()
  } catch (error) {
    const told = error.errors ? error.errors[0] : error
    same('error', told.type || (told.cause && told.cause.type), type)
    return
  }
  throw new Mismatch(`it was done where ${type} is right`)
}

const kafka = scenario =>
  new Kafka({
    clientId: 'kafkajs',
    brokers: [scenario.bootstrap],
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 12 },
  })

const withClient = async (client, use) => {
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.disconnect()
  }
}

const withProducer = (scenario, use, options = {}) => withClient(kafka(scenario).producer(options), use)
const withAdmin = (scenario, use, options = {}) => withClient(kafka(scenario).admin(options), use)

const send = (scenario, topic, messages, { acks, compression, ...options } = {}) =>
  withProducer(scenario, producer => producer.send({ topic, messages, acks, compression }), options)

// A consumer that gathers what it reads. Without a group of its own it has the scenario's.
const gathering = (scenario, { group = '', topics, fromBeginning = true, autoCommit = false, onMessage, ...options }) => {
  const settings = { maxWaitTimeInMs: 100, heartbeatInterval: 200, sessionTimeout: 10000, ...options }
  const consumer = kafka(scenario).consumer({ groupId: `${scenario.name}${group}`, ...settings })
  const got = []
  const eachMessage = async ({ topic, partition, message }) => {
    const record = { topic, partition, offset: Number(message.offset), ...message, number: Number(message.offset) }
    if (onMessage) await onMessage(record, consumer)
    got.push(record)
  }
  const start = async () => {
    await consumer.connect()
    await consumer.subscribe({ topics, fromBeginning })
    let fetches = 0
    consumer.on(consumer.events.FETCH, () => fetches++)
    await consumer.run({ autoCommit, eachMessage })
    await until('the first fetch', () => fetches > 0) // now it has its place in each partition
  }
  return { consumer, got, start, stop: () => consumer.disconnect() }
}

let readings = 0

// The first `count` records of all partitions, by a group of its own.
const readFrom = async (scenario, topic, count, options = {}) => {
  const reader = gathering(scenario, { group: `-reading-${++readings}`, topics: [topic], ...options })
  await reader.start()
  try {
    await until(`${count} records`, () => reader.got.length >= count)
    return reader.got
  } finally {
    await reader.stop()
  }
}

const createTopic = async (scenario, partitions = 1, { suffix = '', configs = {} } = {}) => {
  const topic = `${scenario.name}${suffix}`
  await scenario.ask('create_topic', { topic, partitions, configs })
  return topic
}

// A new topic with `count` records in each partition: values PARTITION-NUMBER.
const filled = async (scenario, count, partitions = 1, how = {}) => {
  const topic = await createTopic(scenario, partitions)
  for (let partition = 0; partition < partitions; partition++) {
    await scenario.ask('fill', { topic, count, partition, ...how })
  }
  return topic
}

const range = (from, to) => Array.from({ length: to - from }, (_, index) => from + index)
const values = (partition, from, to) => range(from, to).map(number => `${partition}-${number}`)
const textOf = records => records.map(record => record.value.toString())

module.exports = {
  MIB, Mismatch, START_MS, createTopic, filled, gathering, holds, kafka, pause, range, readFrom, refused, same, send,
  textOf, until, values, withAdmin, withProducer,
}
