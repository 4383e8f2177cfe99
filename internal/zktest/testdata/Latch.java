import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Stands for election with Curator's LeaderLatch, as it is told on standard input, a line each: id, command, path. Each command
 * is answered on standard output, with the id first; what the latch tells its listener is told likewise.
 */
public class Latch {
    private static final Map<String, LeaderLatch> latches = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(arguments[0], Integer.parseInt(arguments[1]), 3000,
                new ExponentialBackoffRetry(50, 20, 500));
        client.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            try {
                say(words[0], obey(client, words[2], words[0], words[1]));
            } catch (Exception e) {
                say(words[0], "error " + e);
            }
        }
        System.exit(0);
    }

    private static String obey(CuratorFramework client, String path, String id, String command) throws Exception {
        switch (command) {
            case "start":
                LeaderLatch latch = new LeaderLatch(client, path, id);
                latches.put(id, latch);
                latch.addListener(new LeaderLatchListener() {
                    public void isLeader() {
                        say(id + "-listener", "leads");
                    }

                    public void notLeader() {
                        say(id + "-listener", "follows");
                    }
                });
                latch.start();
                return "started";
            case "close":
                latches.remove(id).close();
                return "closed";
            case "leader":
                return "leader " + latches.get(id).getLeader().getId();
            case "participants":
                return latches.get(id).getParticipants().stream().map(Latch::show).sorted()
                        .collect(Collectors.joining(" "));
            default:
                return "error no such command";
        }
    }

    private static String show(Participant p) {
        return p.getId() + (p.isLeader() ? "*" : "");
    }

    private static synchronized void say(String id, String words) {
        System.out.println(id + " " + words);
    }
}
