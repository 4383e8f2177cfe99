import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Teams of threads that lock with Curator as often as they can, as they are told on standard input:
 *
 * <pre>
 * open team servers threads shared|each mutex|semaphore|readers path
 * run team warmMillis windowMillis
 * close team
 * </pre>
 *
 * Each command is answered by a line with the team's name first; run by two of them, when the window opens and when it closes, and
 * by a third with the acquisitions of each thread once all have stopped.
 */
public class Curator {
    private interface Body {
        void once() throws Exception;
    }

    private static class Team {
        final List<CuratorFramework> clients = new ArrayList<>();
        final List<Body> bodies = new ArrayList<>();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Team> teams = new ConcurrentHashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            try {
                switch (words[0]) {
                    case "open":
                        teams.put(words[1], open(words));
                        say(words[1] + " opened");
                        break;
                    case "run":
                        run(words[1], teams.get(words[1]), Long.parseLong(words[2]), Long.parseLong(words[3]));
                        break;
                    case "close":
                        for (CuratorFramework client : teams.remove(words[1]).clients) {
                            client.close();
                        }
                        say(words[1] + " closed");
                        break;
                    default:
                        say(words[1] + " error unknown command");
                }
            } catch (Exception e) {
                say(words[1] + " error " + e);
            }
        }
        System.exit(0);
    }

    private static Team open(String[] words) throws Exception {
        Team team = new Team();
        int threads = Integer.parseInt(words[3]);
        for (int i = 0; i < threads; i++) {
            if (i == 0 || words[4].equals("each")) {
                CuratorFramework client = CuratorFrameworkFactory.newClient(words[2], 10000, 10000,
                        new ExponentialBackoffRetry(50, 20, 500));
                team.clients.add(client);
                client.start();
                client.blockUntilConnected();
            }
            team.bodies.add(body(words[5], team.clients.get(team.clients.size() - 1), words[6]));
        }
        return team;
    }

    private static Body body(String kind, CuratorFramework client, String path) {
        switch (kind) {
            case "semaphore":
                InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, 8);
                return () -> {
                    Lease lease = semaphore.acquire();
                    semaphore.returnLease(lease);
                };
            case "readers":
                InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
                return () -> {
                    InterProcessMutex one = ThreadLocalRandom.current().nextInt(10) == 0 ? both.writeLock() : both.readLock();
                    one.acquire();
                    one.release();
                };
            default:
                InterProcessMutex mutex = new InterProcessMutex(client, path);
                return () -> {
                    mutex.acquire();
                    mutex.release();
                };
        }
    }

    private static volatile boolean over;

    private static void run(String name, Team team, long warm, long window) throws Exception {
        over = false;
        AtomicLongArray done = new AtomicLongArray(team.bodies.size());
        List<Thread> threads = new ArrayList<>();
        List<Exception> failed = new ArrayList<>();
        for (int i = 0; i < team.bodies.size(); i++) {
            int mine = i;
            Thread thread = new Thread(() -> {
                try {
                    while (!over) {
                        team.bodies.get(mine).once();
                        done.incrementAndGet(mine);
                    }
                } catch (Exception e) {
                    synchronized (failed) {
                        failed.add(e);
                    }
                }
            });
            threads.add(thread);
            thread.start();
        }
        Thread.sleep(warm);
        say(name + " begins");
        long[] counts = new long[threads.size()];
        for (int i = 0; i < counts.length; i++) {
            counts[i] = -done.get(i);
        }
        Thread.sleep(window);
        for (int i = 0; i < counts.length; i++) {
            counts[i] += done.get(i);
        }
        say(name + " ends");
        over = true;
        for (Thread thread : threads) {
            thread.join();
        }
        if (!failed.isEmpty()) {
            throw failed.get(0);
        }
        StringBuilder said = new StringBuilder(name + " counts");
        for (long count : counts) {
            said.append(' ').append(count);
        }
        say(said.toString());
    }

    private static void say(String what) {
        System.out.println(what.replace('\n', ' '));
    }
}
