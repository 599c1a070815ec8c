import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;

/** Sends of every kind. */
final class Producers {
    private static final int SHARDS = 3;

    private Producers() {
    }

    static void send(Main.Options options) throws Exception {
        System.setProperty("rocketmq.message.compressType", options.text("compress", "ZLIB"));
        DefaultMQProducer producer = new DefaultMQProducer(
            options.text("group", "PG_driver"), options.signer(), options.flag("trace"), null);
        if (!options.text("namespace", "").isEmpty()) {
            producer.setNamespace(options.text("namespace"));
        }
        producer.setNamesrvAddr(options.text("namesrv"));
        producer.setInstanceName("producer-" + System.nanoTime());
        producer.setSendMsgTimeout(options.number("timeout-ms", 5000));
        if (options.number("poll-ms", 1000) > 0) {
            producer.setPollNameServerInterval(options.number("poll-ms", 1000));
        }
        producer.start();
        try {
            if (options.text("until", "").isEmpty()) {
                send(producer, options);
            } else {
                sendUntil(producer, options, Paths.get(options.text("until")));
            }
        } finally {
            producer.shutdown();
        }
    }

    private static void send(DefaultMQProducer producer, Main.Options options) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < options.number("count", 1); i++) {
            messages.add(message(options, i));
        }
        String kind = options.text("kind", "sync");
        switch (kind) {
            case "sync":
                for (Message message : messages) {
                    report(message, producer.send(message));
                }
                break;
            case "async":
                async(producer, messages);
                break;
            case "oneway":
                for (Message message : messages) {
                    producer.sendOneway(message);
                    Json.line("event", "sent", "status", "ONEWAY", "body",
                        Json.shown(message.getBody()));
                }
                break;
            case "batch":
                SendResult result = producer.send(messages);
                for (Message message : messages) {
                    report(message, result);
                }
                break;
            case "ordered":
                for (int i = 0; i < messages.size(); i++) {
                    report(messages.get(i), producer.send(messages.get(i),
                        (queues, message, shard) -> queues.get((Integer) shard % queues.size()),
                        i % SHARDS));
                }
                break;
            default:
                throw new IllegalArgumentException("no kind " + kind);
        }
    }

    private static void sendUntil(DefaultMQProducer producer, Main.Options options, Path file)
        throws Exception {
        for (int i = 0; !Files.exists(file); i++) {
            Message message = message(options, i);
            try {
                report(message, "ordered".equals(options.text("kind", "sync"))
                    ? producer.send(message, (queues, sent, shard) ->
                        queues.get((Integer) shard % queues.size()), i % SHARDS)
                    : producer.send(message));
            } catch (Exception error) {
                Json.line("event", "failed", "body", Json.shown(message.getBody()),
                    "error", String.valueOf(error));
            }
            Thread.sleep(options.number("pause-ms", 0));
        }
    }

    private static Message message(Main.Options options, int i) {
        String prefix = options.text("prefix", "m");
        StringBuilder body = new StringBuilder(prefix + "-" + i);
        while (body.length() < options.number("size", 0)) {
            body.append('.');
        }
        Message message = new Message(options.text("topic"),
            body.toString().getBytes(StandardCharsets.UTF_8));
        String[] tags = options.text("tags", "").split(",");
        if (!tags[0].isEmpty()) {
            message.setTags(tags[i % tags.length]);
        }
        message.setKeys(prefix + "-k-" + i);
        message.putUserProperty("n", String.valueOf(i));
        message.putUserProperty("color", i % 2 == 0 ? "red" : "blue");
        message.putUserProperty("note", "snow \u96ea");
        if (options.number("delay", 0) > 0) {
            message.setDelayTimeLevel(options.number("delay", 0));
        }
        if (options.number("delay-ms", 0) > 0) { // setDelayTimeMs, which 4.9 has not
            MessageAccessor.putProperty(message, "TIMER_DELAY_MS",
                options.text("delay-ms"));
        }
        return message;
    }

    private static void async(DefaultMQProducer producer, List<Message> messages)
        throws Exception {
        CountDownLatch open = new CountDownLatch(messages.size());
        AtomicReference<Throwable> failure = new AtomicReference<>();
        for (Message message : messages) {
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    report(message, result);
                    open.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    failure.set(error);
                    open.countDown();
                }
            });
        }
        if (!open.await(20, TimeUnit.SECONDS)) {
            throw new IllegalStateException(open.getCount() + " asynchronous sends unanswered");
        }
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
    }

    private static void report(Message message, SendResult result) {
        Json.line("event", "sent", "status", result.getSendStatus(), "id", result.getMsgId(),
            "offset_id", result.getOffsetMsgId(),
            "queue", result.getMessageQueue().getQueueId(),
            "queue_offset", result.getQueueOffset(), "body", Json.shown(message.getBody()));
    }
}
