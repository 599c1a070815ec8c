import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Upstream's mqadmin for many commands in one JVM: one command line a line of standard input. */
public final class Admin {
    private Admin() {
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.trim().split("\\s+");
            if (!Calls.run(words)) {
                MQAdminStartup.main0(words, null);
            }
            System.out.println("\n--- end of command ---");
            System.out.flush();
        }
        System.exit(0);
    }
}
