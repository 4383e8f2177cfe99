//go:build unix

package embedtest

import (
	"errors"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// An etcdChild says what a child process is to serve.
type etcdChild struct {
	Name    string // of the member
	Data    string // directory
	Client  string // URL to listen on for clients
	Peer    string // URL to listen on for the other members, relative to the working directory
	Cluster string // name=URL of every member
	Fsync   bool
}

// serve runs the member until it fails. Its error is never nil.
func (c etcdChild) serve() error {
	config, err := c.config()
	if err != nil {
		return err
	}
	// etcd reserves the space of two segments of its log beforehand, 128 MB by default.
	wal.SegmentSizeBytes = 4 << 20
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	if err, ok := <-server.Err(); ok {
		return err
	}
	return errors.New("the server ended by itself")
}

func (c etcdChild) config() (*embed.Config, error) {
	client, err := url.Parse(c.Client)
	if err != nil {
		return nil, err
	}
	peer, err := url.Parse(c.Peer)
	if err != nil {
		return nil, err
	}
	config := embed.NewConfig()
	config.Name = c.Name
	config.Dir = c.Data
	config.ListenClientUrls = []url.URL{*client}
	config.AdvertiseClientUrls = []url.URL{*client}
	config.ListenPeerUrls = []url.URL{*peer}
	config.AdvertisePeerUrls = []url.URL{*peer}
	config.InitialCluster = c.Cluster
	config.TickMs = uint(etcdTick / time.Millisecond)
	config.ElectionMs = uint(etcdElection / time.Millisecond)
	config.UnsafeNoFsync = !c.Fsync
	config.BcryptCost = 4 // the least: passwords of tests are no secrets, and a crowd of clients would wait for them
	config.LogLevel = "warn"
	config.LogOutputs = []string{embed.StdErrLogOutput}
	return config, nil
}
