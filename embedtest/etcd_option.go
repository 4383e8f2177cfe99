//go:build unix

package embedtest

// An EtcdOption changes a setting of every member that is started with it.
type EtcdOption func(*etcdChild)

// Fsync makes the members sync their files before they answer, as members in production do.
func Fsync() EtcdOption { return func(c *etcdChild) { c.Fsync = true } }
