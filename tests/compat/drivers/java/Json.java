import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.zip.CRC32;
import org.apache.rocketmq.common.message.MessageExt;

/** JSON lines without a library: the clients' own differ from version to version. */
final class Json {
    static PrintStream out;
    private static final int SHOWN_CHARS = 64;

    private Json() {
    }

    static synchronized void line(Object... fields) {
        StringBuilder text = new StringBuilder("{");
        for (int i = 0; i < fields.length; i += 2) {
            text.append(i == 0 ? "" : ",");
            quote(text, String.valueOf(fields[i])).append(':');
            value(text, fields[i + 1]);
        }
        byte[] bytes = text.append("}\n").toString().getBytes(StandardCharsets.UTF_8);
        out.write(bytes, 0, bytes.length);
        out.flush();
    }

    static void received(int member, MessageExt message) {
        byte[] body = message.getBody();
        CRC32 crc = new CRC32();
        crc.update(body);
        line("event", "received", "member", member, "topic", message.getTopic(),
            "queue", message.getQueueId(), "queue_offset", message.getQueueOffset(),
            "id", message.getMsgId(), "body", shown(body), "size", body.length,
            "crc", crc.getValue(), "tags", message.getTags(), "keys", message.getKeys(),
            "reconsume", message.getReconsumeTimes(), "at_ms", System.currentTimeMillis(),
            "props", message.getProperties());
    }

    static String shown(byte[] body) {
        String text = new String(body, StandardCharsets.UTF_8);
        return text.length() > SHOWN_CHARS ? text.substring(0, SHOWN_CHARS) : text;
    }

    private static void value(StringBuilder text, Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            text.append(value);
        } else if (value instanceof Map) {
            text.append('{');
            String comma = "";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                text.append(comma);
                quote(text, String.valueOf(entry.getKey())).append(':');
                value(text, entry.getValue());
                comma = ",";
            }
            text.append('}');
        } else {
            quote(text, String.valueOf(value));
        }
    }

    private static StringBuilder quote(StringBuilder text, String value) {
        text.append('"');
        for (char c : value.toCharArray()) {
            if (c < ' ' || c == '"' || c == '\\') {
                text.append(String.format("\\u%04x", (int) c));
            } else {
                text.append(c);
            }
        }
        return text.append('"');
    }
}
