import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** Runs the scenario of the command line, or those of standard input one after another. */
public final class Main {
    private Main() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // what the client itself prints must not mix with our lines
        Json.out = out;
        loadClasses();
        if (args.length > 0) {
            System.exit(run(args) ? 0 : 1);
        }
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (!line.trim().isEmpty()) {
                run(line.trim().split("\\s+"));
            }
        }
        System.exit(0);
    }

    /**
     * A client's first call counts the time in which the JVM loads netty, and gives up after 3 s.
     * On a busy machine that is before it has sent anything, so a call to nobody comes first.
     */
    private static void loadClasses() {
        NettyRemotingClient client = new NettyRemotingClient(new NettyClientConfig());
        client.start();
        try {
            client.invokeSync("127.0.0.1:1", RemotingCommand.createRequestCommand(0, null), 60_000);
        } catch (Exception refused) {
            // as it should be
        } finally {
            client.shutdown();
        }
    }

    private static boolean run(String[] words) {
        String error = "";
        try {
            Options options = new Options(words);
            switch (words[0]) {
                case "send":
                    Producers.send(options);
                    break;
                case "transact":
                    Transactions.run(options);
                    break;
                case "push":
                    Consumers.push(options);
                    break;
                case "pull":
                    Pulls.pull(options);
                    break;
                case "litepull":
                    Pulls.litePull(options);
                    break;
                default:
                    throw new IllegalArgumentException("no scenario " + words[0]);
            }
        } catch (Throwable caught) {
            error = String.valueOf(caught);
            caught.printStackTrace();
        }
        Json.line("event", "end", "scenario", words[0], "ok", error.isEmpty(), "error", error);
        return error.isEmpty();
    }

    /** The words after the scenario's name: {@code --name value} pairs. */
    static final class Options {
        private final Map<String, String> values = new HashMap<>();

        Options(String[] words) {
            for (int i = 1; i + 1 < words.length; i += 2) {
                values.put(words[i].substring(2), words[i + 1].replace('+', ' '));
            }
        }

        String text(String name, String otherwise) {
            return values.getOrDefault(name, otherwise);
        }

        String text(String name) {
            String value = values.get(name);
            if (value == null) {
                throw new IllegalArgumentException("--" + name + " is missing");
            }
            return value;
        }

        /** Signs requests as `--user`; null without one. */
        RPCHook signer() {
            return values.containsKey("user")
                ? new AclClientRPCHook(new SessionCredentials(text("user"), text("secret")))
                : null;
        }

        int number(String name, int otherwise) {
            return Integer.parseInt(text(name, String.valueOf(otherwise)));
        }

        boolean flag(String name) {
            return Boolean.parseBoolean(text(name, "false"));
        }
    }
}
