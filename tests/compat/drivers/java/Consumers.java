import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** Push consumers: several members of one group in this process, each with its own connection. */
final class Consumers {
    private Consumers() {
    }

    static void push(Main.Options options) throws Exception {
        int count = options.number("count", 0);
        CountDownLatch open = new CountDownLatch(count > 0 ? count : Integer.MAX_VALUE);
        List<DefaultMQPushConsumer> members = new ArrayList<>();
        try {
            for (int member = 0; member < options.number("members", 1); member++) {
                members.add(start(options, member, open));
            }
            boolean all = open.await(options.number("timeout-ms", 30000), TimeUnit.MILLISECONDS);
            if (!all && count > 0) {
                throw new IllegalStateException(open.getCount() + " messages did not come");
            }
            Thread.sleep(options.number("linger-ms", 0));
        } finally {
            members.forEach(DefaultMQPushConsumer::shutdown);
        }
    }

    private static DefaultMQPushConsumer start(
        Main.Options options, int member, CountDownLatch open) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
            options.text("group"), options.signer(), new AllocateMessageQueueAveragely(),
            options.flag("trace"), null);
        if (!options.text("namespace", "").isEmpty()) {
            consumer.setNamespace(options.text("namespace"));
        }
        consumer.setNamesrvAddr(options.text("namesrv"));
        consumer.setInstanceName("member-" + member + "-" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (options.number("poll-ms", 1000) > 0) {
            consumer.setPollNameServerInterval(options.number("poll-ms", 1000));
            consumer.setHeartbeatBrokerInterval(2000); // a broker that came back knows us sooner
        }
        if (options.flag("broadcast")) {
            broadcast(consumer);
        }
        if (options.flag("pop")) {
            brokerShares(consumer);
        }
        if (options.number("max-reconsume", 0) > 0) {
            consumer.setMaxReconsumeTimes(options.number("max-reconsume", 0));
        }
        String topic = options.text("topic");
        if (options.text("sql", "").isEmpty()) {
            consumer.subscribe(topic, options.text("filter", "*"));
        } else {
            consumer.subscribe(topic, MessageSelector.bySql(options.text("sql")));
        }
        listen(consumer, options, member, open);
        consumer.start();
        Json.line("event", "started", "member", member);
        return consumer;
    }

    private static void listen(
        DefaultMQPushConsumer consumer, Main.Options options, int member, CountDownLatch open) {
        boolean fails = options.flag("fail");
        if (options.flag("order")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                take(messages, member, open);
                return fails ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
                    : ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                take(messages, member, open);
                return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                    : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
    }

    private static void take(List<MessageExt> messages, int member, CountDownLatch open) {
        for (MessageExt message : messages) {
            Json.received(member, message);
            open.countDown();
        }
    }

    /** What POP needs of a client, by reflection: 4.9 has no such setter. */
    private static void brokerShares(DefaultMQPushConsumer consumer) throws Exception {
        DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class)
            .invoke(consumer, false);
    }

    /** The enum moved to another package between 4.9 and 5.x, so it is found by its setter. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void broadcast(DefaultMQPushConsumer consumer) throws Exception {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                Class type = method.getParameterTypes()[0];
                method.invoke(consumer, Enum.valueOf(type, "BROADCASTING"));
            }
        }
    }
}
