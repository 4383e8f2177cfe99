package etcd

import (
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A scene is a past that is told of answers.
type scene struct {
	*testing.T
	past
}

func (s *scene) renewal(term uint64, revision int64) {
	s.renewed(&pb.ResponseHeader{ClusterId: 1, RaftTerm: term, Revision: revision}, s.leastRenewed())
}

func (s *scene) answer(revision int64) { s.answered(&pb.ResponseHeader{Revision: revision}, s.least()) }

// same requires that f does not change the name of the past; other that it does.
func (s *scene) same(f func()) {
	s.Helper()
	before := s.name()
	f()
	require.Equal(s, before, s.name())
}

func (s *scene) other(f func()) {
	s.Helper()
	before := s.name()
	f()
	require.NotEqual(s, before, s.name())
}

func TestPastOfAServiceThatGoesOn(t *testing.T) {
	s := &scene{T: t}
	s.renewal(1, 10)
	s.same(func() {
		s.renewal(1, 10)
		s.answer(12)
		s.answer(12)
		s.renewal(1, 11) // by a member that is behind for a moment
		s.answer(12)
		s.answered(nil, s.least()) // by a proxy, say
		s.renewal(1, 12)
		s.renewal(0, 0)
	})
	least, renewal := s.least(), s.leastRenewed()
	s.same(func() { // answers that were on their way while others came
		s.answer(20)
		s.renewal(1, 20)
		s.answered(&pb.ResponseHeader{Revision: 13}, least)
		s.renewed(&pb.ResponseHeader{ClusterId: 1, RaftTerm: 1, Revision: 12}, renewal)
	})
}

func TestPastOfAServiceThatGoesBack(t *testing.T) {
	begin := func() *scene {
		s := &scene{T: t}
		s.renewal(2, 10)
		s.answer(14)
		return s
	}
	for name, f := range map[string]func(s *scene){
		"an election":        func(s *scene) { s.renewal(3, 14) },
		"the term of before": func(s *scene) { s.renewal(1, 14) },
		"another cluster": func(s *scene) {
			s.renewed(&pb.ResponseHeader{ClusterId: 2, RaftTerm: 2, Revision: 14}, s.leastRenewed())
		},
		"a lower revision":    func(s *scene) { s.answer(13) },
		"a renewal far below": func(s *scene) { s.renewal(2, 9) },
		"two renewals below": func(s *scene) { // of which the first was not below what the last renewal had seen
			s.renewal(2, 10)
			s.renewal(2, 10)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin()
			s.T = t
			s.other(func() { f(s) })
		})
	}
}

// TestPastCountsAFallOnce: several answers of the earlier state were on their way.
func TestPastCountsAFallOnce(t *testing.T) {
	s := &scene{T: t}
	s.renewal(1, 20)
	one, two := s.least(), s.least()
	s.other(func() { s.answered(&pb.ResponseHeader{Revision: 5}, one) })
	s.same(func() {
		s.answered(&pb.ResponseHeader{Revision: 5}, two)
		s.answer(5)
		s.renewal(1, 5)
		s.renewal(1, 6)
	})
}
