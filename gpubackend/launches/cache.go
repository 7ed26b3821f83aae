// SPDX-License-Identifier: Apache-2.0

package launches

import "github.com/paracuda/paracuda/gpubackend"

const (
	// MinReplay is the fewest launches for which a replay is faster.
	MinReplay = 16
	maxGraphs = 64
	maxNotes  = 1024 // batches that were seen once
)

// Sequence is a batch that is replayed.
type Sequence[Graph any] struct {
	Graph      Graph
	Parameters []byte // as the graph's nodes have them

	shapes []Shape
	used   uint64 // when it was last replayed
}

// Cache remembers batches that were seen, and the graphs of those that were seen twice. The zero
// value, with a Free, is empty.
type Cache[Graph any] struct {
	// Free frees the graph of a sequence that is forgotten.
	Free func(Graph)

	known map[uint64]*Sequence[Graph] // by hash of its shapes
	noted map[uint64]struct{}         // seen once
	clock uint64
	sums  [MaxBatch + 1]uint64 // hash of each prefix of the launches at hand
}

// Choose returns how many of the launches to replay, from the first on, 0 for none, and notes what
// it sees for the first time. It considers all of them, up to MaxBatch, and each power of two:
// programs repeat whole sequences, or one kernel.
func (c *Cache[Graph]) Choose(ls []gpubackend.Launch) int {
	n := min(len(ls), MaxBatch)
	if n < MinReplay {
		return 0
	}
	c.sum(ls[:n])
	power := MinReplay
	for 2*power <= n {
		power *= 2
	}
	for _, length := range [...]int{n, power} {
		if c.find(ls[:length]) != nil {
			return length
		}
	}
	for _, length := range [...]int{n, power} {
		if _, seen := c.noted[c.sums[length]]; seen {
			return length
		}
	}
	c.note(c.sums[n])
	c.note(c.sums[power])
	return 0
}

// sum fills sums.
func (c *Cache[Graph]) sum(ls []gpubackend.Launch) {
	h := uint64(hashStart)
	for i := range ls {
		h = mix(h, hash(&ls[i]))
		c.sums[i+1] = h
	}
}

func (c *Cache[Graph]) note(sum uint64) {
	if c.noted == nil {
		c.noted = map[uint64]struct{}{}
	}
	if len(c.noted) >= maxNotes {
		clear(c.noted)
	}
	c.noted[sum] = struct{}{}
}

// find returns the sequence of launches whose hash is in sums.
func (c *Cache[Graph]) find(ls []gpubackend.Launch) *Sequence[Graph] {
	if s := c.known[c.sums[len(ls)]]; s != nil && s.matches(ls) {
		return s
	}
	return nil
}

func (s *Sequence[Graph]) matches(ls []gpubackend.Launch) bool {
	if len(s.shapes) != len(ls) {
		return false
	}
	for i := range ls {
		if s.shapes[i] != ShapeOf(&ls[i]) {
			return false
		}
	}
	return true
}

// Find returns the sequence of launches that Choose has chosen, nil if there is none yet, and
// counts it as used.
func (c *Cache[Graph]) Find(ls []gpubackend.Launch) *Sequence[Graph] {
	s := c.find(ls)
	if s != nil {
		c.clock++
		s.used = c.clock
	}
	return s
}

// Add remembers the sequence of launches that Choose has chosen, and, if there are too many,
// forgets the least recently used one.
func (c *Cache[Graph]) Add(
	ls []gpubackend.Launch, graph Graph, parameters []byte,
) *Sequence[Graph] {
	if c.known == nil {
		c.known = map[uint64]*Sequence[Graph]{}
	}
	c.Remove(ls)
	for len(c.known) >= maxGraphs {
		oldest, used := uint64(0), ^uint64(0)
		for sum, s := range c.known {
			if s.used < used {
				oldest, used = sum, s.used
			}
		}
		c.drop(oldest)
	}
	c.clock++
	s := &Sequence[Graph]{Graph: graph, Parameters: parameters, used: c.clock}
	for i := range ls {
		s.shapes = append(s.shapes, ShapeOf(&ls[i]))
	}
	c.known[c.sums[len(ls)]] = s
	return s
}

// Remove forgets the sequence of launches that Choose has chosen: its graph can't be used.
func (c *Cache[Graph]) Remove(ls []gpubackend.Launch) { c.drop(c.sums[len(ls)]) }

func (c *Cache[Graph]) drop(sum uint64) {
	if s := c.known[sum]; s != nil {
		c.Free(s.Graph)
		delete(c.known, sum)
	}
}

// Forget forgets everything.
func (c *Cache[Graph]) Forget() {
	for sum := range c.known {
		c.drop(sum)
	}
	clear(c.noted)
}

// Len is the number of graphs.
func (c *Cache[Graph]) Len() int { return len(c.known) }
