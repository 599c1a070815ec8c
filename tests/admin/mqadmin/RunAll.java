import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Runs each line of a file as one mqadmin command line, in one JVM: starting one takes seconds. */
public class RunAll {
    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Paths.get(args[0]), StandardCharsets.UTF_8)) {
            System.out.println("\u0001" + line);
            MQAdminStartup.main(line.split("\t"));
            System.out.println();
        }
        System.out.println("\u0001");
        System.exit(0);
    }
}
