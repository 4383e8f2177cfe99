package location

import (
	"bytes"
	"cmp"
	"context"
	cryptotls "crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"time"

	zkclient "github.com/go-zookeeper/zk"
)

// askZooKeeper asks srvr, as operators do. A server that may not answer that has answered.
func (m *Member) askZooKeeper(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	until, _ := ctx.Deadline()
	if err := conn.SetDeadline(until); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 64<<10))
	if len(answer) == 0 {
		return cmp.Or(err, io.ErrUnexpectedEOF)
	}
	version := regexp.MustCompile(`(?m)^Zookeeper version: ([^-,]+)`).FindSubmatch(answer)
	mode := regexp.MustCompile(`(?m)^Mode: (\w+)`).FindSubmatch(answer)
	switch {
	case version != nil && mode != nil:
		m.Version = fmt.Sprintf("ZooKeeper %s, %s", version[1], mode[1])
	case bytes.Contains(answer, []byte("not currently serving requests")):
		m.Wrong = append(m.Wrong, errors.New("does not serve: it has no leader"))
	}
	return nil
}

// entryNode are the names of entries on ZooKeeper, farsync's, Curator's and kazoo's.
var entryNode = regexp.MustCompile(`(lock-|__lock__|__WRIT__|__READ__|latch-|permit-[1-9][0-9]*-)[0-9]{10}$`)

// strayNodes are nodes with the name of an entry that are not ephemeral.
func (l *Location) strayNodes(ctx context.Context, prefix string, known map[string]bool, password string, config *cryptotls.Config) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(l.DialTimeout, reaching))
	defer cancel()
	dial := func(network, address string, patience time.Duration) (net.Conn, error) {
		dialer := &net.Dialer{Timeout: patience}
		if config == nil {
			return dialer.DialContext(ctx, network, address)
		}
		return (&cryptotls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, network, address)
	}
	conn, _, err := zkclient.Connect(l.Hosts, 10*time.Second, zkclient.WithDialer(dial), zkclient.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, conn.Close)() // the client's calls know no context
	if l.User != "" {
		if err := conn.AddAuth("digest", []byte(l.User+":"+password)); err != nil {
			return nil, err
		}
	}
	var strays []string
	prefix = l.Namespace + prefix
	for folders := []string{prefix[:strings.LastIndexByte(prefix, '/')]}; len(folders) > 0; {
		folder := folders[0]
		folders = folders[1:]
		names, _, err := conn.Children(cmp.Or(folder, "/"))
		if err != nil && !errors.Is(err, zkclient.ErrNoNode) {
			return nil, cmp.Or(ctx.Err(), err)
		}
		for _, name := range names {
			path := folder + "/" + name
			switch {
			case known[path], !strings.HasPrefix(path, prefix), path == "/zookeeper":
			case !entryNode.MatchString(name):
				folders = append(folders, path)
			default:
				there, stat, err := conn.Exists(path)
				if err != nil {
					return nil, cmp.Or(ctx.Err(), err)
				}
				if there && stat.EphemeralOwner == 0 {
					strays = append(strays, path)
				}
			}
		}
	}
	return strays, nil
}

// silent drops what the client library logs: what matters comes as an error.
type silent struct{}

func (silent) Printf(string, ...any) {}
