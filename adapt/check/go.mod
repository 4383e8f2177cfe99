module github.com/farsync/farsync/adapt/check

go 1.26.0

require (
	github.com/farsync/farsync v0.0.0
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/caddyserver/certmagic v0.25.6
)

replace github.com/farsync/farsync => ../..
