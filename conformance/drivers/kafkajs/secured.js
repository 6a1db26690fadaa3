// TLS, logins, rights and quotas: what conformance/drivers/secured.py does with clients of Python.
'use strict'

const fs = require('fs')
const { Kafka, logLevel } = require('kafkajs')
const { Mismatch, createTopic, holds, range, same, until } = require('./scenario')

const LETS_IN = ['tls', 'mutual_tls', 'sasl_plain', 'scram_sha_256', 'scram_sha_512', 'oauthbearer']
const [RATE, VALUE_BYTES, VALUES] = [40000, 10000, 47]
const LOGIN_ERROR = 'KafkaJSSASLAuthenticationError'

const login = access => {
  if (!access.mechanism) return undefined
  const mechanism = access.mechanism.toLowerCase()
  if (access.token) return { mechanism, oauthBearerProvider: async () => ({ value: access.token }) }
  return { mechanism, username: access.user, password: access.password }
}

const kafka = access => {
  const ssl = { ca: [fs.readFileSync(access.authority)] }
  if (access.key) Object.assign(ssl, { cert: fs.readFileSync(access.certificate), key: fs.readFileSync(access.key) })
  const retry = { initialRetryTime: 100, maxRetryTime: 1000, retries: 5 }
  return new Kafka({ brokers: [access.bootstrap], logLevel: logLevel.NOTHING, retry, ssl, sasl: login(access) })
}

const write = async (access, topic, values) => {
  const producer = kafka(access).producer()
  try {
    await producer.connect()
    for (const value of values) await producer.send({ topic, messages: [{ value, partition: 0 }] })
  } finally {
    await producer.disconnect()
  }
}

const read = async (access, topic, count) => {
  const consumer = kafka(access).consumer({ groupId: topic, maxWaitTimeInMs: 100 })
  const got = []
  try {
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({ autoCommit: false, eachMessage: async ({ message }) => got.push(message.value.toString()) })
    await until(`${count} records`, () => got.length >= count)
    return got
  } finally {
    await consumer.disconnect()
  }
}

const nameOf = error => {
  for (let inner = error; inner; inner = inner.cause || inner.originalError) {
    if (inner.name === LOGIN_ERROR) return LOGIN_ERROR
    if (inner.name === 'KafkaJSAggregateError') return nameOf(inner.errors[0])
    if (inner.type) return inner.type
  }
  return error.name
}

const fails = async (wanted, access, topic) => {
  try {
    await write(access, topic, ['never'])
  } catch (error) {
    same('error', nameOf(error), wanted)
    return
  }
  throw new Mismatch(`it was written where ${wanted} is right`)
}

const count = async (scenario, topic) =>
  (await scenario.ask('batches', { topic })).reduce((sum, batch) => sum + batch.records, 0)

const letsIn = way => async scenario => {
  const topic = await createTopic(scenario)
  const access = await scenario.ask('access', { feature: way })
  const values = range(0, 20).map(String)
  await write(access, topic, values)
  same('values', await read(access, topic, 20), values)
}

const wrong_password = async scenario => {
  const topic = await createTopic(scenario)
  const begun = Date.now()
  await fails(LOGIN_ERROR, await scenario.ask('access', { feature: 'wrong_password' }), topic)
  holds('it comes late', Date.now() - begun < 10000)
  same('records', await count(scenario, topic), 0)
}

const denied_topic = async scenario => {
  const mine = await createTopic(scenario, 1, { suffix: '-mine' })
  const others = await createTopic(scenario, 1, { suffix: '-others' })
  const access = await scenario.ask('access', { feature: 'denied_topic' })
  await scenario.ask('allow', { user: access.user, topic: mine })
  await write(access, mine, ['before'])
  await fails('TOPIC_AUTHORIZATION_FAILED', access, others)
  await write(access, mine, ['after'])
  same('records of the one and the other', [await count(scenario, mine), await count(scenario, others)], [2, 0])
}

const throttled = async scenario => {
  const topic = await createTopic(scenario)
  const access = await scenario.ask('access', { feature: 'throttled' })
  await scenario.ask('limit', { user: access.user, bytes_per_second: RATE })
  const values = range(0, VALUES).map(number => String(number).padEnd(VALUE_BYTES, '.'))
  const begun = Date.now()
  await write(access, topic, values)
  holds('nobody waited', Date.now() - begun > 1500)
  same('values', await read(access, topic, VALUES), values)
}

module.exports = {
  scenarios: { ...Object.fromEntries(LETS_IN.map(way => [way, letsIn(way)])), wrong_password, denied_topic, throttled },
  lacks: {},
  partly: {},
}
