package location

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (l *Location) parseQuery(query string, allowed []string) error {
	options := strings.Split(query, "&")
	for i, option := range options {
		if err := checkPlain(option); err != nil {
			return fmt.Errorf("option %d of %d %w", i+1, len(options), err)
		}
		// A form of a page has blanks as +. Here + stands for itself, as in the name of a file.
		options[i] = strings.ReplaceAll(option, "+", "%2B")
		if slices.Contains(switches, option) {
			options[i] = option + "=1"
		}
	}
	values, err := url.ParseQuery(strings.Join(options, "&"))
	if err != nil {
		return errors.New("the options after ? are not name=value&name=value")
	}
	for name, given := range values {
		if !slices.Contains(allowed, name) {
			// A value in the place of a name is not repeated, either.
			if !slices.Contains(names(), name) {
				name = "an option"
			}
			return fmt.Errorf("%s is not known there; there are %s", name, strings.Join(allowed, ", "))
		}
		if len(given) != 1 {
			return fmt.Errorf("option %s comes %d times: write it once", name, len(given))
		}
		if err := l.set(name, given[0]); err != nil {
			return fmt.Errorf("option %s %w", name, err)
		}
	}
	return nil
}

// names are all options of all stores.
func names() (all []string) {
	for _, s := range schemes {
		all = append(all, s.options...)
	}
	return all
}

func (l *Location) set(name, value string) (err error) {
	switch name {
	case "ttl":
		l.TTL, err = duration(value)
	case "dial-timeout":
		l.DialTimeout, err = duration(value)
	case "password-file":
		l.PasswordFile = value
	case "tls":
		l.TLS, err = boolean(value)
	case "cacert":
		l.CACert, l.TLS = value, true
	case "cert":
		l.Cert, l.TLS = value, true
	case "key":
		l.Key, l.TLS = value, true
	case "namespace":
		l.Namespace = value
	case "plaintext":
		l.Plaintext, err = boolean(value)
	case "db":
		l.Database, err = number(value)
	case "schema":
		l.Tables = value
	case "master":
		l.Master = value
	case "replicas":
		l.Replicas, err = number(value)
	case "fresh":
		l.Fresh, err = boolean(value)
	case "migrate":
		l.Migrate, err = boolean(value)
	case "connections":
		if l.Most, err = number(value); l.Most < leastOfStore {
			err = errors.New("is not a number from 2 on: one renews the session, the other does everything else")
		}
	case "sync":
		l.Sync, err = boolean(value)
	case "prefix":
		l.Prefix = strings.TrimSuffix(value, "/")
	}
	if err == nil && value == "" {
		err = errors.New("is empty: give it a value, or leave it out")
	}
	return err
}

func duration(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return 0, errors.New("is not a time such as 10s")
	}
	return d, nil
}

func boolean(value string) (bool, error) {
	switch value {
	case "1", "true":
		return true, nil
	case "0", "false":
		return false, nil
	default:
		return false, errors.New("is neither 1 nor 0: write one of them")
	}
}

func number(value string) (int, error) {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return 0, errors.New("is not a number from 0 on")
	}
	return int(n), nil
}
