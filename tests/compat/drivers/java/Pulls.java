import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The two pull interfaces. */
final class Pulls {
    private Pulls() {
    }

    @SuppressWarnings("deprecation")
    static void pull(Main.Options options) throws Exception {
        DefaultMQPullConsumer consumer =
            new DefaultMQPullConsumer(options.text("group"), options.signer());
        consumer.setNamesrvAddr(options.text("namesrv"));
        consumer.setInstanceName("puller-" + System.nanoTime());
        consumer.start();
        Json.line("event", "started", "member", 0);
        try {
            List<MessageQueue> queues =
                new ArrayList<>(consumer.fetchSubscribeMessageQueues(options.text("topic")));
            queues.sort(Comparator.naturalOrder());
            int seen = 0;
            for (MessageQueue queue : queues) {
                seen += pullQueue(consumer, queue, options);
            }
            check(seen, options.number("count", 0));
        } finally {
            consumer.shutdown();
        }
    }

    @SuppressWarnings("deprecation")
    private static int pullQueue(
        DefaultMQPullConsumer consumer, MessageQueue queue, Main.Options options)
        throws Exception {
        long offset = consumer.minOffset(queue);
        if (options.flag("resume")) {
            offset = Math.max(0, consumer.fetchConsumeOffset(queue, true));
        }
        int seen = 0;
        while (offset < consumer.maxOffset(queue)) {
            PullResult result = consumer.pull(queue, options.text("filter", "*"), offset, 32);
            if (result.getPullStatus() == PullStatus.FOUND) {
                for (MessageExt message : result.getMsgFoundList()) {
                    Json.received(0, message);
                    seen++;
                }
            }
            offset = result.getNextBeginOffset();
        }
        consumer.updateConsumeOffset(queue, offset);
        return seen;
    }

    static void litePull(Main.Options options) throws Exception {
        DefaultLitePullConsumer consumer =
            new DefaultLitePullConsumer(options.text("group"), options.signer());
        consumer.setNamesrvAddr(options.text("namesrv"));
        consumer.setInstanceName("lite-" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(options.text("topic"), options.text("filter", "*"));
        consumer.start();
        Json.line("event", "started", "member", 0);
        int count = options.number("count", 0);
        int seen = 0;
        try {
            long end = System.currentTimeMillis() + options.number("timeout-ms", 30000);
            while (seen < count && System.currentTimeMillis() < end) {
                for (MessageExt message : consumer.poll(500)) {
                    Json.received(0, message);
                    seen++;
                }
            }
            consumer.commitSync();
            check(seen, count);
        } finally {
            consumer.shutdown();
        }
    }

    private static void check(int seen, int count) {
        if (seen < count) {
            throw new IllegalStateException((count - seen) + " messages did not come");
        }
    }
}
