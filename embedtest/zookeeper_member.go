//go:build unix

package embedtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// See Ticks.
	zooKeeperTick      = 500 * time.Millisecond
	zooKeeperSyncTicks = 5
	zooKeeperInitTicks = 20
	// A follower dials a leader that refuses it 5 times, a second apart.
	zooKeeperPatience = 4 * time.Second
)

// A zooKeeperMember says what a java process is to serve.
type zooKeeperMember struct {
	home   string // directory of everything it writes
	client port
	id     int      // counted from 1
	peers  []string // host:quorum:election of each, as this one sees them; none for a server that stands alone
}

// write lays out the home: configuration, name and data.
func (m zooKeeperMember) write(settings settings) error {
	if err := os.MkdirAll(m.data(), 0o700); err != nil {
		return err
	}
	files := map[string]string{
		m.configuration():                         m.configured(settings),
		filepath.Join(m.data(), "myid"):           fmt.Sprintln(m.id),
		filepath.Join(m.home, "logback.xml"):      logbackSettings,
		filepath.Join(m.home, "log4j.properties"): log4jSettings,
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (m zooKeeperMember) configured(settings settings) string {
	lines := []string{
		"dataDir=" + m.data(),
		fmt.Sprintf("tickTime=%d", settings.tick.Milliseconds()),
		fmt.Sprintf("initLimit=%d", zooKeeperInitTicks),
		fmt.Sprintf("syncLimit=%d", settings.syncTicks),
		fmt.Sprintf("clientPort=%d", m.client.number),
		"clientPortAddress=127.0.0.1",
		"maxClientCnxns=0",
		"maxSessionTimeout=40000", // as with ZooKeeper's own tick; with ours it would be 10 s
	}
	for i, peer := range m.peers {
		lines = append(lines, fmt.Sprintf("server.%d=%s", i+1, peer))
	}
	return strings.Join(lines, "\n") + "\n"
}

func (m zooKeeperMember) command(java string, jars []string, settings settings) *exec.Cmd {
	arguments := []string{
		"-Xmx256m", "-XX:+UseSerialGC",
		"-Djava.net.preferIPv4Stack=true",
		"-Dzookeeper.extendedTypesEnabled=true",
		"-Dznode.container.checkIntervalMs=2000",
		"-Dzookeeper.4lw.commands.whitelist=*",
		"-Dzookeeper.admin.enableServer=false",
		"-Dzookeeper.jmx.log4j.disable=true",
		// An election that has gone on for long repeats its votes only once a minute otherwise.
		"-Dzookeeper.fastleader.maxNotificationInterval=1000",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", strings.Join(append([]string{m.home}, jars...), string(filepath.ListSeparator)),
	}
	if !settings.fsync {
		arguments = append(arguments, "-Dzookeeper.forceSync=no")
	}
	if !settings.bench {
		arguments = append(arguments, "-XX:TieredStopAtLevel=1") // a test seldom runs so long that better code pays
	}
	arguments = append(arguments, "org.apache.zookeeper.server.quorum.QuorumPeerMain", m.configuration())
	command := exec.Command(java, arguments...)
	command.Dir = m.home
	return command
}

func (m zooKeeperMember) data() string          { return filepath.Join(m.home, "data") }
func (m zooKeeperMember) configuration() string { return filepath.Join(m.home, "zoo.cfg") }

// Releases since 3.8 log through logback and those before through log4j; without settings both print everything.
const (
	logbackSettings = `<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %p [%t] %logger{0}: %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
`
	log4jSettings = `log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p [%t] %c{1}: %m%n
`
)
