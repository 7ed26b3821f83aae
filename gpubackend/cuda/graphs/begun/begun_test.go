// SPDX-License-Identifier: Apache-2.0

package begun

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/activity"
)

func at(s gpubackend.Stream) activity.Place { return activity.At(1, s) }

func always(activity.Place) bool { return true }

// TestHeld: a stream is held if only one launch can be that which has called.
func TestHeld(t *testing.T) {
	graphs := map[gpubackend.GraphExec]Hosts{
		1: {10: true}, 2: {10: true}, 3: {30: true, 31: false}, 4: {}, 5: {50: true, 51: true},
	}
	of := func(e gpubackend.GraphExec) (Hosts, bool) {
		f, ok := graphs[e]
		return f, ok
	}
	for _, test := range []struct {
		name string
		do   func(l *Launches)
		due  []uint64
		want []activity.Place
	}{
		{"launched", func(l *Launches) { l.Begin(1, at(7), always) }, []uint64{10},
			[]activity.Place{at(7)}},
		{"twice in its stream", func(l *Launches) {
			l.Begin(1, at(7), always)
			l.Begin(1, at(7), always)
		}, []uint64{10}, []activity.Place{at(7)}},
		{"in two streams", func(l *Launches) {
			l.Begin(1, at(7), always)
			l.Begin(1, at(8), always)
		}, []uint64{10}, nil},
		{"in another stream, where the first is idle", func(l *Launches) {
			l.Begin(1, at(7), always)
			l.Begin(1, at(8), func(p activity.Place) bool { return p != at(7) })
		}, []uint64{10}, []activity.Place{at(8)}},
		{"another graph's, too", func(l *Launches) {
			l.Begin(1, at(7), always)
			l.Begin(2, at(7), always)
		}, []uint64{10}, nil},
		{"another graph has none", func(l *Launches) {
			l.Begin(1, at(7), always)
			l.Begin(4, at(8), always)
		}, []uint64{10}, []activity.Place{at(7)}},
		{"two graphs' functions", func(l *Launches) {
			l.Begin(1, at(7), always)
			l.Begin(5, at(8), always)
		}, []uint64{51, 10}, []activity.Place{at(8), at(7)}},
		{"not due", func(l *Launches) { l.Begin(1, at(7), always) }, nil, nil},
		{"due of nobody", func(l *Launches) { l.Begin(1, at(7), always) }, []uint64{11}, nil},
		{"something else goes on", func(l *Launches) { l.Begin(3, at(7), always) },
			[]uint64{31}, nil},
		{"beside one where it doesn't", func(l *Launches) { l.Begin(3, at(7), always) },
			[]uint64{30, 31}, []activity.Place{at(7)}},
		{"of a graph that isn't known", func(l *Launches) {
			l.Begin(1, at(7), always)
			l.Begin(9, at(8), always)
		}, []uint64{10}, nil},
		{"changed since", func(l *Launches) {
			l.Begin(1, at(7), always)
			l.Change(1)
		}, []uint64{10}, nil},
		{"changed since, and launched again", func(l *Launches) {
			l.Begin(1, at(7), always)
			l.Change(1)
			l.Begin(1, at(7), always)
		}, []uint64{10}, nil},
		{"another one changed", func(l *Launches) {
			l.Begin(4, at(8), always)
			l.Begin(1, at(7), always)
			l.Change(4)
		}, []uint64{10}, nil},
		{"changed before all has ended", func(l *Launches) {
			l.Begin(1, at(7), always)
			l.Change(1)
			l.End()
			l.Begin(1, at(7), always)
		}, []uint64{10}, []activity.Place{at(7)}},
		{"too many", func(l *Launches) {
			for s := range gpubackend.Stream(Most + 1) {
				l.Begin(4, at(100+s), always)
			}
			l.Begin(1, at(7), always)
		}, []uint64{10}, nil},
		{"too many before all has ended", func(l *Launches) {
			for s := range gpubackend.Stream(Most + 1) {
				l.Begin(4, at(100+s), always)
			}
			l.End()
			l.Begin(1, at(7), always)
		}, []uint64{10}, []activity.Place{at(7)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var l Launches
			test.do(&l)
			if got := l.Held(test.due, of, always); !slices.Equal(got, test.want) {
				t.Errorf("%v are held, want %v", got, test.want)
			}
			if len(l.all) > Most {
				t.Errorf("%d launches are noted", len(l.all))
			}
		})
	}
}

// model is a GPU whose streams run launches, each of which is in front of, in, or behind its only
// function. The oracle is that it knows where each function was called.
type model struct {
	queues  [4][]run
	tokens  map[gpubackend.GraphExec]uint64 // of executable graphs that there are
	running map[gpubackend.GraphExec]int    // the stream in which a launch of it is on, and 1
	seen    [4]bool                         // that may be busy, as far as the caller knows
}

type run struct {
	exec  gpubackend.GraphExec
	token uint64 // as it was launched
	step  int
}

const inFunction = 1

// step lets a stream go on; a graph's launches come one after the other.
func (m *model) step(s int) {
	q := m.queues[s]
	if len(q) == 0 {
		return
	}
	r := &q[0]
	if on := m.running[r.exec]; on != 0 && on != s+1 {
		return
	}
	m.running[r.exec] = s + 1
	if r.step++; r.step > inFunction+1 {
		delete(m.running, r.exec)
		m.queues[s] = q[1:]
	}
}

func (m *model) due() (tokens []uint64) {
	for _, q := range m.queues {
		if len(q) > 0 && q[0].step == inFunction {
			tokens = append(tokens, q[0].token)
		}
	}
	return tokens
}

func (m *model) busy(p activity.Place) bool { return m.seen[p.Stream-10] }

func (m *model) of(e gpubackend.GraphExec) (Hosts, bool) {
	token, ok := m.tokens[e]
	return Hosts{token: true}, ok
}

// TestOnlyHeldStreamsAreHeld: whatever is launched, changed and destroyed, and whenever somebody
// looks, no stream counts as held whose function wasn't called.
func TestOnlyHeldStreamsAreHeld(t *testing.T) {
	found := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 11))
		m := model{tokens: map[gpubackend.GraphExec]uint64{},
			running: map[gpubackend.GraphExec]int{}}
		var l Launches
		last := gpubackend.GraphExec(0)
		for range 200 {
			s, e := r.IntN(len(m.queues)), gpubackend.GraphExec(0)
			if len(m.tokens) > 0 {
				e = last - gpubackend.GraphExec(r.IntN(int(last)))
			}
			token, exists := m.tokens[e]
			switch what := r.IntN(12); {
			case what == 0 && len(m.tokens) < 6:
				last++
				m.tokens[last] = r.Uint64N(8)
			case what == 1 && exists && r.IntN(3) == 0:
				l.Change(e)
				delete(m.tokens, e)
			case what == 2 && exists && r.IntN(3) == 0:
				l.Change(e)
				m.tokens[e] = r.Uint64N(8)
			case what <= 5 && exists:
				m.seen[s] = true
				l.Begin(e, at(gpubackend.Stream(10+s)), m.busy)
				m.queues[s] = append(m.queues[s], run{e, token, 0})
			case what == 6 && len(m.queues[s]) == 0:
				m.seen[s] = false
			case what == 7 && !slices.Contains(m.seen[:], true):
				l.End()
			default:
				m.step(s)
			}
			for _, p := range l.Held(m.due(), m.of, m.busy) {
				found++
				q := m.queues[p.Stream-10]
				if len(q) == 0 || q[0].step != inFunction {
					t.Fatalf("seed %d: stream %d counts as held: %+v", seed, p.Stream, q)
				}
			}
		}
	}
	if found < 400 {
		t.Errorf("only %d held streams were found", found)
	}
}
