//go:build unix

package embedtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoZooKeeper says that no ZooKeeper server can be run here.
var ErrNoZooKeeper = errors.New("farsync: no ZooKeeper server found: apt-get install zookeeper or set ZOOKEEPER_HOME")

// debianJars is where Debian's packages put theirs.
const debianJars = "/usr/share/java"

// FindZooKeeper returns the paths of java and of the jars that make a ZooKeeper server: the jars of ZOOKEEPER_HOME/lib
// if that variable is set, else the jars of Debian's zookeeper package. The error wraps [ErrNoZooKeeper] and says what
// is missing.
func FindZooKeeper() (java string, jars []string, err error) {
	java, err = exec.LookPath("java")
	if home := os.Getenv("JAVA_HOME"); home != "" && err != nil {
		java, err = exec.LookPath(filepath.Join(home, "bin", "java"))
	}
	if err != nil {
		return "", nil, fmt.Errorf("%w (%w)", ErrNoZooKeeper, err)
	}
	if home := os.Getenv("ZOOKEEPER_HOME"); home != "" {
		jars, err = homeJars(home)
	} else {
		jars, err = packagedJars(debianJars)
	}
	if err != nil {
		return "", nil, fmt.Errorf("%w (%w)", ErrNoZooKeeper, err)
	}
	return java, jars, nil
}

func homeJars(home string) ([]string, error) {
	jars, err := filepath.Glob(filepath.Join(home, "lib", "*.jar"))
	if err != nil {
		return nil, err
	}
	for _, jar := range jars {
		if strings.HasPrefix(filepath.Base(jar), "zookeeper-") {
			return jars, nil
		}
	}
	return nil, fmt.Errorf("no zookeeper-*.jar in %s", filepath.Join(home, "lib"))
}

func packagedJars(directory string) ([]string, error) {
	// The manifest of the first names what it needs, all but something to log with.
	jars := []string{filepath.Join(directory, "zookeeper.jar"), filepath.Join(directory, "slf4j-simple.jar")}
	for _, jar := range jars {
		if _, err := os.Stat(jar); err != nil {
			return nil, err
		}
	}
	return jars, nil
}
