// Producing: bytes, keys, headers, codecs, timestamps, idempotence, sizes, transactions.
'use strict'

const { CompressionCodecs, CompressionTypes } = require('kafkajs')
const lz4 = require('lz4-napi')
const snappy = require('kafkajs-snappy')
const zstd = require('@bokuweb/zstd-wasm')

const {
  MIB, createTopic, gathering, holds, pause, range, readFrom, refused, same, send, textOf, until, withProducer,
} = require('./scenario')

// Without it kafkajs sends all again when one partition of many was refused.
const IDEMPOTENT = { idempotent: true, maxInFlightRequests: 1 }

const zstdReady = zstd.init()
CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: encoder => lz4.compressFrame(encoder.buffer),
  decompress: buffer => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => (await zstdReady, Buffer.from(zstd.compress(encoder.buffer, 3))),
  decompress: async buffer => (await zstdReady, Buffer.from(zstd.decompress(buffer))),
})
const TYPES = {
  none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD,
}

const plain = async scenario => {
  const topic = await createTopic(scenario, 3)
  const everyByte = Buffer.from(range(0, 256))
  const payloads = range(0, 100).map(number => Buffer.concat([Buffer.alloc(number, number), everyByte]))
  const messages = payloads.map((value, number) => ({ value, partition: number % 3 }))
  const acknowledged = await send(scenario, topic, messages)
  same('acknowledged', acknowledged.map(each => [each.partition, each.baseOffset]).sort(), [[0, '0'], [1, '0'], [2, '0']])
  const got = await readFrom(scenario, topic, 100)
  for (const partition of range(0, 3)) {
    const mine = got.filter(record => record.partition === partition)
    const wanted = payloads.filter((_, number) => number % 3 === partition)
    holds(`values of ${partition}`, mine.length === wanted.length && mine.every((record, at) => record.value.equals(wanted[at])))
    same(`offsets of ${partition}`, mine.map(record => record.number), range(0, mine.length))
  }
}

const keysAndNulls = async scenario => {
  const topic = await createTopic(scenario)
  const pairs = [[null, 'v'], ['', 'v'], ['k\0', ''], ['k', null], [null, null]]
  await send(scenario, topic, pairs.map(([key, value]) => ({ key, value })))
  const got = await readFrom(scenario, topic, pairs.length)
  const text = bytes => bytes && bytes.toString()
  same('records', got.map(record => [text(record.key), text(record.value)]), pairs)
}

const headers = async scenario => {
  const topic = await createTopic(scenario)
  const sent = { a: ['1', Buffer.from([0, 255])], b: '', ü: '2' }
  await send(scenario, topic, [{ value: 'x', headers: sent }, { value: 'y' }])
  const [first, second] = await readFrom(scenario, topic, 2)
  const wanted = { a: [Buffer.from('1'), Buffer.from([0, 255])], b: Buffer.from(''), ü: Buffer.from('2') }
  same('headers', first.headers, wanted)
  same('no headers', second.headers, {})
}

const codecValues = () => range(0, 200).map(number => `${number} `.repeat(100))

const codec = name => async scenario => {
  const topic = await createTopic(scenario)
  await writeCodec(scenario, topic, name)
  same('stored', [...new Set((await scenario.ask('batches', { topic })).map(batch => batch.codec))], [name])
  same('values', textOf(await readFrom(scenario, topic, 200)), codecValues())
}

const writeCodec = (scenario, topic, name) =>
  send(scenario, topic, codecValues().map(value => ({ value })), { compression: TYPES[name] })

const createTime = async scenario => {
  const topic = await createTopic(scenario, 1, { configs: { 'retention.ms': '-1' } })
  const wanted = ['1000', '1700000000123', '1600000000000']
  await send(scenario, topic, wanted.map(timestamp => ({ value: 'x', timestamp })))
  same('timestamps', (await readFrom(scenario, topic, 3)).map(record => record.timestamp), wanted)
}

const logAppendTime = async scenario => {
  const topic = await createTopic(scenario, 1, { configs: { 'message.timestamp.type': 'LogAppendTime' } })
  const before = Date.now()
  const [told] = await send(scenario, topic, [{ value: 'x', timestamp: '1000' }])
  holds(`the producer was told ${told.logAppendTime}`, before <= Number(told.logAppendTime) && Number(told.logAppendTime) <= Date.now())
  const [batch] = await scenario.ask('batches', { topic })
  same('its kind', batch.has_log_append_time, true)
  await readFrom(scenario, topic, 1)
}

const acks = async scenario => {
  for (const level of [0, 1, -1]) {
    const topic = await createTopic(scenario, 1, { suffix: `-${level}` })
    await send(scenario, topic, range(0, 50).map(number => ({ value: `${number}` })), { acks: level })
    same(`values with acks=${level}`, textOf(await readFrom(scenario, topic, 50)), range(0, 50).map(String))
  }
}

const idempotence = async scenario => {
  const topic = await createTopic(scenario)
  await withProducer(scenario, async producer => {
    for (const number of range(0, 20)) {
      await producer.send({ topic, messages: range(50 * number, 50 * number + 50).map(each => ({ value: `${each}` })) })
    }
  }, IDEMPOTENT)
  same('values', textOf(await readFrom(scenario, topic, 1000)), range(0, 1000).map(String))
  const batches = await scenario.ask('batches', { topic })
  holds('the batches carry no producer id', batches.every(batch => batch.producer_id >= 0))
}

// The broker is killed while messages are under way.
const idempotenceRestart = async scenario => {
  const topic = await createTopic(scenario)
  await withProducer(scenario, async producer => {
    const one = number => producer.send({ topic, messages: [{ value: `${number}` }] })
    for (const number of range(0, 20)) await one(number)
    const restarting = scenario.ask('kill').then(() => scenario.ask('start'))
    for (const number of range(20, 200)) await one(number)
    await restarting
    for (const number of range(200, 220)) await one(number)
  }, IDEMPOTENT)
  same('values', textOf(await readFrom(scenario, topic, 220)), range(0, 220).map(String))
}

const large = async scenario => {
  const topic = await createTopic(scenario, 1, { configs: { 'max.message.bytes': `${9 * MIB}` } })
  const value = Buffer.alloc(8 * MIB, Buffer.from(range(0, 256)))
  await send(scenario, topic, [{ value }])
  await send(scenario, topic, [{ value: 'next' }])
  const [first, second] = await readFrom(scenario, topic, 2, { maxBytesPerPartition: 10 * MIB })
  holds('8 MiB came back otherwise', first.value.equals(value))
  same('what follows', second.value.toString(), 'next')
}

const tooLarge = async scenario => {
  const topic = await createTopic(scenario, 1, { configs: { 'max.message.bytes': '100000' } })
  await refused('MESSAGE_TOO_LARGE', () => send(scenario, topic, [{ value: Buffer.alloc(200000) }]))
  await send(scenario, topic, [{ value: 'small' }])
  same('values', textOf(await readFrom(scenario, topic, 1)), ['small'])
}

const manyPartitions = async scenario => {
  const topic = await createTopic(scenario, 200)
  await send(scenario, topic, range(0, 400).map(number => ({ value: `${number}`, partition: number % 200 })), IDEMPOTENT)
  const got = await readFrom(scenario, topic, 400)
  const found = got.map(record => [record.partition, record.number, Number(record.value)])
  found.sort((left, right) => left[0] - right[0] || left[1] - right[1])
  same('records', found, range(0, 200).flatMap(each => [[each, 0, each], [each, 1, each + 200]]))
}

const autoCreate = async scenario => {
  await send(scenario, scenario.name, [{ value: 'first' }])
  same('values', textOf(await readFrom(scenario, scenario.name, 1)), ['first'])
}

const transactions = async scenario => {
  const topic = await createTopic(scenario)
  await withProducer(scenario, async producer => {
    for (const value of ['committed', 'aborted', 'after']) {
      const transaction = await producer.transaction()
      await transaction.send({ topic, messages: [{ value }] })
      await (value === 'aborted' ? transaction.abort() : transaction.commit())
    }
  }, { transactionalId: scenario.name, ...IDEMPOTENT })
  const committed = gathering(scenario, { group: '-committed', topics: [topic] })
  await committed.start()
  await until('two records', () => committed.got.length >= 2)
  await pause(500)
  await committed.stop()
  same('committed', textOf(committed.got), ['committed', 'after'])
  const every = await readFrom(scenario, topic, 3, { readUncommitted: true })
  same('uncommitted', textOf(every), ['committed', 'aborted', 'after'])
}

const EXCHANGE_CODECS = ['none', 'gzip', 'snappy', 'lz4', 'zstd']

// See conformance/drivers/exchange.py.
const exchangeWrite = async scenario => {
  for (const [partition, name] of EXCHANGE_CODECS.entries()) {
    const messages = codecValues().map(value => ({ value, partition }))
    await send(scenario, scenario.name, messages, { compression: TYPES[name] })
  }
}

const exchangeRead = async scenario => {
  const got = await readFrom(scenario, scenario.name, EXCHANGE_CODECS.length * codecValues().length)
  for (const [partition, name] of EXCHANGE_CODECS.entries()) {
    same(`values with codec ${name}`, textOf(got.filter(record => record.partition === partition)), codecValues())
  }
}

module.exports = {
  scenarios: {
    exchange_write: exchangeWrite, exchange_read: exchangeRead,
    plain, keys_and_nulls: keysAndNulls, headers, create_time: createTime, log_append_time: logAppendTime, acks,
    idempotence, idempotence_restart: idempotenceRestart, large, too_large: tooLarge, many_partitions: manyPartitions,
    auto_create: autoCreate, transactions, gzip: codec('gzip'), snappy: codec('snappy'), lz4: codec('lz4'),
    zstd: codec('zstd'),
  },
  lacks: {},
  partly: {
    headers: 'kafkajs has no order of headers and sends no null in one',
    log_append_time: 'kafkajs does not tell readers which kind a timestamp is',
    snappy: 'kafkajs itself has gzip only; with kafkajs-snappy',
    lz4: 'kafkajs itself has gzip only; with lz4-napi',
    zstd: 'kafkajs itself has gzip only; with @bokuweb/zstd-wasm',
  },
  writeCodec,
}
