import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Locks with Curator what it is told on standard input, a line each: thread, command, arguments. Threads work side by
 * side, for a lock of Curator's belongs to a thread. Each command is answered on standard output, with the thread's name
 * first. Changes of the connection's state are told as those of a thread named state.
 */
public class Curator {
    private final CuratorFramework client;
    private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
    private final Map<String, InterProcessMutex> locks = new ConcurrentHashMap<>();
    private final Map<String, AutoCloseable> permits = new ConcurrentHashMap<>();

    private Curator(String servers, int sessionMillis) {
        client = CuratorFrameworkFactory.newClient(servers, sessionMillis, sessionMillis / 2,
                new ExponentialBackoffRetry(50, 20, 500));
        client.getConnectionStateListenable().addListener((c, state) -> say("state", state.toString()));
        client.start();
    }

    public static void main(String[] arguments) throws Exception {
        Curator curator = new Curator(arguments[0], Integer.parseInt(arguments[1]));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            curator.threads.computeIfAbsent(words[0], name -> Executors.newSingleThreadExecutor())
                    .execute(() -> curator.answer(words));
        }
        System.exit(0);
    }

    private void answer(String[] words) {
        try {
            say(words[0], obey(words));
        } catch (Exception e) {
            say(words[0], "error " + e);
        }
    }

    private String obey(String[] words) throws Exception {
        InterProcessMutex lock = locks.computeIfAbsent(words[2], this::open);
        switch (words[1]) {
            case "lock":
                lock.acquire();
                return "locked";
            case "try":
                return lock.acquire(0, TimeUnit.SECONDS) ? "locked" : "busy";
            case "unlock":
                lock.release();
                return "unlocked";
            case "revocable":
                lock.makeRevocable(asked -> say("revocable", "asked"));
                return "revocable";
            case "revoke":
                Revoker.attemptRevoke(client, words[2]);
                return "revoked";
            case "semaphore":
                InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, words[2], 2);
                Lease lease = semaphore.acquire();
                permits.put(words[2], () -> semaphore.returnLease(lease));
                return "acquired";
            case "semaphoremutex":
                InterProcessSemaphoreMutex mutex = new InterProcessSemaphoreMutex(client, words[2]);
                mutex.acquire();
                permits.put(words[2], mutex::release);
                return "acquired";
            case "return":
                permits.remove(words[2]).close();
                return "returned";
            case "participants":
                return "participants " + lock.getParticipantNodes().size();
            case "add":
                for (int i = 0; i < Integer.parseInt(words[4]); i++) {
                    lock.acquire();
                    try {
                        int number = Integer.parseInt(new String(client.getData().forPath(words[3])));
                        client.setData().forPath(words[3], Integer.toString(number + 1).getBytes());
                    } finally {
                        lock.release();
                    }
                }
                return "added";
            default:
                return "error unknown command";
        }
    }

    /** A path by itself is an InterProcessMutex; read:path and write:path are the two sides of a read/write lock. */
    private InterProcessMutex open(String name) {
        if (name.startsWith("read:")) {
            return new InterProcessReadWriteLock(client, name.substring(5)).readLock();
        }
        if (name.startsWith("write:")) {
            return new InterProcessReadWriteLock(client, name.substring(6)).writeLock();
        }
        return new InterProcessMutex(client, name);
    }

    private static void say(String thread, String what) {
        synchronized (System.out) {
            System.out.println(thread + " " + what.replace('\n', ' '));
        }
    }
}
