// kafkajs in a process of its own; the lines are those of conformance/driving.py. stdout is for them alone.
'use strict'

const readline = require('readline')
const { Mismatch } = require('./scenario')
const { version } = require('kafkajs/package.json')

const modules = ['./producing', './reading', './groups', './admin', './secured'].map(require)
const scenarios = Object.assign({}, ...modules.map(module => module.scenarios))
const lacks = Object.assign({}, ...modules.map(module => module.lacks))
const partly = Object.assign({}, ...modules.map(module => module.partly))

const lines = readline.createInterface({ input: process.stdin })
const coming = lines[Symbol.asyncIterator]()
const say = message => process.stdout.write(JSON.stringify(message) + '\n')
const hear = async () => {
  const { value, done } = await coming.next()
  return done ? null : JSON.parse(value)
}

let asking = Promise.resolve()

// What conformance/stage.py does for a driver, one question after the other.
const ask = (name, details = {}) => {
  asking = asking.then(async () => {
    say({ ask: name, ...details })
    const said = await hear()
    if ('error' in said) throw new Mismatch(`${name}: ${said.error}`)
    return said.answer
  })
  return asking
}

const REFUSALS = ['KafkaJSServerDoesNotSupportApiKey', 'KafkaJSGroupCoordinatorNotFound']

// The broker's no: kafkajs puts its errors into errors of its own.
const refusal = error => {
  for (let inner = error; inner; inner = inner.cause || inner.originalError) {
    if (inner.name === 'KafkaJSAggregateError') return refusal(inner.errors[0])
    if (inner.name === 'KafkaJSProtocolError') return `${inner.type}: ${inner.message}`
    if (inner.name === 'KafkaJSCreateTopicError' || inner.name === 'KafkaJSDeleteGroupsError') return `${inner.type}: ${inner.message}`
    if (REFUSALS.includes(inner.name)) return `${inner.name}: ${inner.message}`
  }
  return null
}

const answer = async request => {
  const { feature } = request
  if (feature === 'version') return { outcome: 'works', detail: version }
  if (feature in lacks) return { outcome: 'lacks', detail: lacks[feature] }
  try {
    await scenarios[feature]({ bootstrap: request.bootstrap, name: request.name, ask })
    return { outcome: 'works', detail: partly[feature] || '' }
  } catch (error) {
    console.error(error)
    if (error instanceof Mismatch) return { outcome: 'failed', detail: error.message }
    const no = refusal(error)
    return no ? { outcome: 'refused', detail: no } : { outcome: 'failed', detail: `${error.name}: ${error.message}` }
  }
}

const serve = async () => {
  for (let request = await hear(); request; request = await hear()) {
    asking = Promise.resolve()
    say(await answer(request))
  }
  process.exit(0)
}

serve()
