import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Sends in transactions that end as the options say, and answers the brokers' questions. */
final class Transactions {
    private Transactions() {
    }

    static void run(Main.Options options) throws Exception {
        AtomicInteger asked = new AtomicInteger();
        TransactionMQProducer producer =
            new TransactionMQProducer(options.text("group", "PG_transactions"), options.signer());
        producer.setNamesrvAddr(options.text("namesrv"));
        producer.setInstanceName("transactions-" + System.nanoTime());
        producer.setSendMsgTimeout(options.number("timeout-ms", 5000));
        producer.setPollNameServerInterval(1000);
        producer.setHeartbeatBrokerInterval(1000); // brokers ask whom they have heard of
        producer.setTransactionListener(listener(options, asked));
        producer.start();
        try {
            if (Boolean.parseBoolean(options.text("send", "true"))) {
                send(producer, options);
            } else { // it greets only brokers that it has sent to
                Message message = new Message(options.text("topic"), new byte[] {'r'});
                producer.sendMessageInTransaction(message, null);
            }
            long until = System.currentTimeMillis() + options.number("timeout-ms", 60_000);
            while (asked.get() < options.number("wait-checks", 0)
                && System.currentTimeMillis() < until) {
                Thread.sleep(20);
            }
            Thread.sleep(options.number("linger-ms", 300));
        } finally {
            producer.shutdown();
        }
    }

    private static void send(TransactionMQProducer producer, Main.Options options)
        throws Exception {
        for (int i = 0; i < options.number("count", 1); i++) {
            String body = options.text("prefix", "t") + "-" + i;
            Message message = new Message(options.text("topic"), "A",
                options.text("prefix", "t") + "-k-" + i, body.getBytes(StandardCharsets.UTF_8));
            message.putUserProperty("n", String.valueOf(i));
            TransactionSendResult result = producer.sendMessageInTransaction(message, i);
            Json.line("event", "sent", "status", result.getSendStatus(), "id", result.getMsgId(),
                "offset_id", String.valueOf(result.getOffsetMsgId()),
                "queue", result.getMessageQueue().getQueueId(),
                "queue_offset", result.getQueueOffset(), "body", body);
        }
    }

    private static TransactionListener listener(Main.Options options, AtomicInteger asked) {
        return new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
                return state(arg == null ? "rollback" : options.text("local", "commit"));
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                Json.line("event", "checked", "body", Json.shown(message.getBody()),
                    "id", message.getTransactionId(),
                    "times", String.valueOf(message.getProperty("TRANSACTION_CHECK_TIMES")));
                asked.incrementAndGet();
                return state(options.text("check", "unknown"));
            }
        };
    }

    private static LocalTransactionState state(String name) {
        switch (name) {
            case "commit":
                return LocalTransactionState.COMMIT_MESSAGE;
            case "rollback":
                return LocalTransactionState.ROLLBACK_MESSAGE;
            case "unknown":
                return LocalTransactionState.UNKNOW;
            default:
                throw new IllegalArgumentException("no state " + name);
        }
    }
}
