package etcd

// NewService is for tests that wrap a driver.
var NewService = newService
