package zk

import "github.com/farsync/farsync/driver"

// NewService returns the driver of Open.
func NewService(servers []string, options *Options) (driver.Service, error) {
	if options == nil {
		options = &Options{}
	}
	return options.service(servers)
}
