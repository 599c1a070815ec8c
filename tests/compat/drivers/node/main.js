// The driver for Alibaba's JavaScript client; see ../README.md for what it speaks.
// The client has neither batches, one-way sends nor a pull interface; it consumes in order anyway.
'use strict';

const fs = require('fs');
const readline = require('readline');
const zlib = require('zlib');
const { Consumer, Message, Producer } = require('ali-ons');

const SHARDS = 3;
const SHOWN_CHARS = 64;
const quiet = {
  info() {},
  debug() {},
  warn: (...words) => console.error(...words),
  error: (...words) => console.error(...words),
};
const sleep = millis => new Promise(resolve => setTimeout(resolve, millis));

function emit(event, fields) {
  process.stdout.write(JSON.stringify(Object.assign({ event }, fields)) + '\n');
}

function parse(words) {
  const options = {};
  for (let i = 0; i + 1 < words.length; i += 2) {
    options[words[i].slice(2)] = words[i + 1].replaceAll('+', ' ');
  }
  return options;
}

function common(options, name) {
  return {
    nameSrv: options.namesrv,
    httpclient: { request() { throw new Error('no HTTP here'); } },
    instanceName: `${name}-${process.hrtime.bigint()}`,
    logger: quiet,
    ...(options.user ? { accessKey: options.user, secretKey: options.secret } : {}),
    ...(options['poll-ms'] === '0' ? {} : {
      pollNameServerInteval: Number(options['poll-ms'] || 1000),
      rebalanceInterval: 1000,
      persistConsumerOffsetInterval: 1000,
    }),
  };
}

async function send(options) {
  const producer = new Producer(Object.assign(common(options, 'producer'), {
    producerGroup: options.group || 'PG_driver',
    sendMsgTimeout: Number(options['timeout-ms'] || 5000),
  }));
  producer.on('error', error => console.error(error));
  await producer.ready();
  const kind = options.kind || 'sync';
  const count = options.until ? 0 : Number(options.count || 1);
  const messages = Array.from({ length: count }, (_, i) => make(options, i));
  const one = async message => {
    const body = message.body.toString().slice(0, SHOWN_CHARS);
    const result = await producer.send(message);
    emit('sent', {
      status: result.sendStatus,
      offset_id: result.msgId,
      queue: Number(result.messageQueue.queueId),
      queue_offset: result.queueOffset,
      body,
    });
  };
  try {
    if (options.until) {
      await sendUntil(options, one);
    } else if (kind === 'async') {
      await Promise.all(messages.map(one));
    } else if (kind === 'sync' || kind === 'ordered') {
      for (const message of messages) {
        await one(message);
      }
    } else {
      throw new Error(`no kind ${kind}`);
    }
  } finally {
    await producer.close();
    // Closing drops the listeners, but the connection may stay and report: that would end us.
    producer.on('error', error => console.error(error));
  }
}

async function sendUntil(options, one) {
  for (let i = 0; !fs.existsSync(options.until); i++) {
    const message = make(options, i);
    const body = message.body.toString().slice(0, SHOWN_CHARS);
    await one(message).catch(error => emit('failed', { body, error: String(error) }));
    await sleep(Number(options['pause-ms'] || 0));
  }
}

function make(options, i) {
  const prefix = options.prefix || 'm';
  const tags = (options.tags || '').split(',');
  const message = new Message(options.topic, tags[i % tags.length],
    `${prefix}-${i}`.padEnd(Number(options.size || 0), '.'));
  if (!message.tags) {
    delete message.properties.TAGS; // or else it is sent as the text "null"
  }
  message.keys = [ `${prefix}-k-${i}` ];
  message.properties.n = String(i);
  message.properties.color = [ 'red', 'blue' ][i % 2];
  message.properties.note = 'snow 雪';
  if (options.delay) {
    message.delayTimeLevel = Number(options.delay);
  }
  if (options.kind === 'ordered') {
    message.shardingKey = `shard-${i % SHARDS}`;
  }
  return message;
}

async function push(options) {
  const members = [];
  let seen = 0;
  const count = Number(options.count || 0);
  try {
    for (let member = 0; member < Number(options.members || 1); member++) {
      members.push(await startMember(options, member, () => seen++));
      emit('started', { member });
    }
    const end = Date.now() + Number(options['timeout-ms'] || 30000);
    while ((!count || seen < count) && Date.now() < end) {
      await sleep(10);
    }
    if (seen < count) {
      throw new Error(`${count - seen} messages did not come`);
    }
    await sleep(Number(options['linger-ms'] || 0));
  } finally {
    await Promise.all(members.map(consumer => consumer.close()));
  }
}

async function startMember(options, member, count) {
  const settings = Object.assign(common(options, 'member'), {
    consumerGroup: options.group,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    isBroadcast: options.broadcast === 'true',
  });
  if (options['max-reconsume']) {
    settings.maxReconsumeTimes = Number(options['max-reconsume']);
  }
  const consumer = new Consumer(settings);
  consumer.on('error', error => console.error(error));
  const filter = options.sql
    ? { expressionType: 'SQL92', subString: options.sql }
    : options.filter || '*';
  consumer.subscribe(options.topic, filter, async message => {
    received(member, message);
    count();
    if (options.fail === 'true') {
      throw new Error('asked to fail'); // the retry topic's handler loses a returned ACTION_RETRY
    }
  });
  await consumer.ready();
  return consumer;
}

function received(member, message) {
  emit('received', {
    member,
    topic: message.topic,
    queue: message.queueId,
    queue_offset: message.queueOffset,
    id: message.properties.UNIQ_KEY,
    body: message.body.toString().slice(0, SHOWN_CHARS),
    size: message.body.length,
    crc: crc32(message.body),
    tags: message.tags || null,
    keys: message.keys || null,
    reconsume: message.reconsumeTimes,
    at_ms: Date.now(),
    props: message.properties,
  });
}

// The trailer of a gzip stream begins with the CRC-32 of its content.
function crc32(bytes) {
  const stream = zlib.gzipSync(bytes);
  return stream.readUInt32LE(stream.length - 8);
}

const scenarios = { send, push };

async function run(words) {
  let error = '';
  try {
    if (!scenarios[words[0]]) {
      throw new Error(`no scenario ${words[0]}`);
    }
    await scenarios[words[0]](parse(words.slice(1)));
  } catch (caught) {
    error = String(caught);
    console.error(caught);
  }
  emit('end', { scenario: words[0], ok: !error, error });
  return !error;
}

async function main() {
  const words = process.argv.slice(2);
  if (words.length) {
    process.exit(await run(words) ? 0 : 1);
  }
  for await (const line of readline.createInterface({ input: process.stdin })) {
    if (line.trim()) {
      await run(line.trim().split(/\s+/));
    }
  }
  process.exit(0);
}

process.on('unhandledRejection', error => console.error(error));
main();
