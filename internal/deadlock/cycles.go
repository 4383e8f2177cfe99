package deadlock

import "slices"

// A search finds the groups among what is left: the strongly connected components, by Tarjan's algorithm. It keeps its
// own stack of calls, for a chain of waiters may be as long as the survey.
type search struct {
	*state

	edges  [][]int
	met    int
	number []int // in the order in which they were met, from 1
	low    []int
	stack  []int
	member []bool // on the stack
	groups [][]int
}

func (s *state) cycles() (found [][]Place) {
	s.fence()
	n := len(s.entries)
	t := &search{state: s, edges: make([][]int, n), number: make([]int, n), low: make([]int, n), member: make([]bool, n)}
	for i := range s.entries {
		if !s.entries[i].gone && t.number[i] == 0 {
			t.visit(i)
		}
	}
	for _, group := range t.groups {
		// An entry cannot be its own blocker, so one alone is in no cycle.
		if len(group) > 1 {
			found = append(found, t.shortest(group))
		}
	}
	slices.SortFunc(found, func(a, b []Place) int { return compare(a[0], b[0]) })
	return found
}

func compare(a, b Place) int {
	if a.Queue != b.Queue {
		return a.Queue - b.Queue
	}
	return a.Entry - b.Entry
}

// A call is one of Tarjan's algorithm that has not returned.
type call struct{ at, done int }

func (t *search) visit(root int) {
	calls := []call{{at: root}}
	t.enter(root)
	for len(calls) > 0 {
		c := &calls[len(calls)-1]
		if c.done < len(t.edges[c.at]) {
			to := t.edges[c.at][c.done]
			c.done++
			if t.number[to] == 0 {
				t.enter(to)
				calls = append(calls, call{at: to})
			} else if t.member[to] {
				t.low[c.at] = min(t.low[c.at], t.number[to])
			}
			continue
		}
		at := c.at
		calls = calls[:len(calls)-1]
		if len(calls) > 0 {
			over := calls[len(calls)-1].at
			t.low[over] = min(t.low[over], t.low[at])
		}
		if t.low[at] == t.number[at] {
			t.leave(at)
		}
	}
}

func (t *search) enter(i int) {
	t.edges[i] = t.blockers(i)
	t.met++
	t.number[i], t.low[i] = t.met, t.met
	t.stack = append(t.stack, i)
	t.member[i] = true
}

func (t *search) leave(at int) {
	var group []int
	for len(group) == 0 || group[len(group)-1] != at {
		top := t.stack[len(t.stack)-1]
		t.stack = t.stack[:len(t.stack)-1]
		t.member[top] = false
		group = append(group, top)
	}
	t.groups = append(t.groups, group)
}

// shortest returns a shortest cycle through the first waiter of a group. Every cycle has a waiter, for a holder waits
// for waiters alone.
func (t *search) shortest(group []int) []Place {
	in := map[int]bool{}
	root := -1
	for _, i := range slices.Sorted(slices.Values(group)) {
		in[i] = true
		if root < 0 && !t.entries[i].granted {
			root = i
		}
	}
	from := map[int]int{}
	for next := []int{root}; ; next = next[1:] {
		for _, to := range t.edges[next[0]] {
			if to == root {
				return t.path(from, root, next[0])
			}
			if _, seen := from[to]; !seen && in[to] {
				from[to] = next[0]
				next = append(next, to)
			}
		}
	}
}

func (t *search) path(from map[int]int, root, last int) (places []Place) {
	for i := last; ; i = from[i] {
		places = append(places, t.entries[i].place)
		if i == root {
			slices.Reverse(places)
			return places
		}
	}
}
