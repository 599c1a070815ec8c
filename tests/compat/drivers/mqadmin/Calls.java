import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What upstream's libraries can do and none of mqadmin's commands does: NAME NAMESRV TOPIC .... */
final class Calls {
    private Calls() {
    }

    /** Whether the words were a call, which has been made then. */
    static boolean run(String[] words) {
        try {
            switch (words[0]) {
                case "sendTimed": // BODY DELAY-MS
                    answer(sendTimed(words));
                    return true;
                case "recallMessage": // HANDLE
                    answer(recallMessage(words));
                    return true;
                case "resumeCheckHalfMessage": // MESSAGE-ID
                    answer(resumeCheckHalfMessage(words));
                    return true;
                default:
                    return false;
            }
        } catch (Exception error) {
            answer("refused: " + error);
            return true;
        }
    }

    /** Told from what the libraries log. */
    private static void answer(String text) {
        System.out.println("answer " + text);
    }

    private static DefaultMQProducer producer(String namesrv) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("PG_calls");
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("calls-" + System.nanoTime());
        producer.start();
        return producer;
    }

    private static String sendTimed(String[] words) throws Exception {
        DefaultMQProducer producer = producer(words[1]);
        try {
            Message message = new Message(words[2], words[3].getBytes(StandardCharsets.UTF_8));
            message.setDelayTimeMs(Long.parseLong(words[4]));
            SendResult result = producer.send(message);
            return result.getMsgId() + " " + result.getRecallHandle();
        } finally {
            producer.shutdown();
        }
    }

    private static String recallMessage(String[] words) throws Exception {
        DefaultMQProducer producer = producer(words[1]);
        try {
            return producer.recallMessage(words[2], words[3]);
        } finally {
            producer.shutdown();
        }
    }

    private static String resumeCheckHalfMessage(String[] words) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(words[1]);
        admin.setInstanceName("calls-" + System.nanoTime());
        admin.start();
        try {
            return String.valueOf(admin.resumeCheckHalfMessage(words[2], words[3]));
        } finally {
            admin.shutdown();
        }
    }
}
