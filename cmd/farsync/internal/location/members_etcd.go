package location

import (
	"context"
	cryptotls "crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// quotaNearlyUsed is the part of its quota from which a database of etcd is nearly full, in percent.
const quotaNearlyUsed = 80

func (m *Member) askEtcd(ctx context.Context, l *Location, from *credentials) error {
	alone := *l
	alone.Hosts = []string{m.Host}
	client, closed, err := alone.etcdClient(ctx, from)
	if err != nil {
		return err
	}
	defer func() { _ = closed() }()
	status, err := client.Status(ctx, m.Host)
	if err != nil {
		return err
	}
	m.Version = "etcd " + status.Version
	if status.Leader == 0 {
		m.Wrong = append(m.Wrong, errors.New("has no leader: most members are away"))
	}
	if quota := status.DbSizeQuota; quota > 0 && status.DbSizeInUse > quota/100*quotaNearlyUsed {
		m.Wrong = append(m.Wrong, fmt.Errorf("uses %d of the %d bytes of its quota: when they are used up, nothing can be locked", status.DbSizeInUse, quota))
	}
	alarms, err := client.AlarmList(ctx) // needs no right
	if err != nil {
		return err
	}
	for _, alarm := range alarms.Alarms {
		if alarm.MemberID == status.Header.MemberId && alarm.Alarm != etcdserverpb.AlarmType_NONE {
			m.Wrong = append(m.Wrong, fmt.Errorf("has the alarm %v: nothing can be locked. Compact, defragment, then etcdctl alarm disarm", alarm.Alarm))
		}
	}
	_, config := from.last()
	m.askDate(ctx, config)
	return nil
}

// askDate asks for the version, as over HTTP a member says the time, in whole seconds. A member that speaks gRPC alone
// at this address does not.
func (m *Member) askDate(ctx context.Context, config *cryptotls.Config) {
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	to := "http://" + m.Host + "/version"
	if config != nil {
		to = "https://" + m.Host + "/version"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to, http.NoBody)
	if err != nil {
		return
	}
	const half = time.Second / 2
	err = m.compare(func() (time.Time, error) {
		response, err := transport.RoundTrip(request)
		if err != nil {
			return time.Time{}, err
		}
		defer response.Body.Close()
		at, err := http.ParseTime(response.Header.Get("Date"))
		return at.Add(half), err
	})
	if err == nil {
		m.Doubt += half
	}
}

// entryKey are the last segments of the keys of farsync on etcd.
var entryKey = regexp.MustCompile(`/((m|w|r|c|s[1-9][0-9]*)-[2-7A-Z]{26}|m-t[1-9a-f][0-9a-f]*[.][0-9a-f]{10})$`)

// sizeKey is what the key of a semaphore's size ends with.
const sizeKey = "!size/units"

// strayKeys are keys without a lease, and the paths that have a size.
func (l *Location) strayKeys(ctx context.Context, prefix string, known map[string]bool, from *credentials) (strays, sized []string, err error) {
	client, closed, err := l.etcdClient(ctx, from)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = closed() }()
	queueOf := func(key string) string { return key[:max(0, strings.LastIndexByte(key, '/'))] }
	queues := map[string]bool{} // in which each key counts, whatever its name
	for key := range known {
		queues[queueOf(key)] = true
	}
	end := clientv3.GetPrefixRangeEnd(prefix)
	for from, more := prefix, true; more; {
		page, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(1000))
		if err != nil {
			return nil, nil, err
		}
		for _, kv := range page.Kvs {
			key := string(kv.Key)
			from = key + "\x00"
			if path, ok := strings.CutSuffix(key, sizeKey); ok {
				sized = append(sized, path)
			}
			if known[key] || !entryKey.MatchString(key) && !queues[queueOf(key)] {
				continue
			}
			// An answer with keys alone does not tell their leases.
			whole, err := client.Get(ctx, key)
			if err != nil {
				return nil, nil, err
			}
			if len(whole.Kvs) == 1 && whole.Kvs[0].Lease == 0 {
				strays = append(strays, key)
			}
		}
		more = page.More
	}
	return strays, sized, nil
}
