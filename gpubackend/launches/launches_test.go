// SPDX-License-Identifier: Apache-2.0

package launches

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

// launch is a launch whose shape no launch with another i has.
func launch(i int) gpubackend.Launch {
	return gpubackend.Launch{
		Function: gpubackend.Function(0x7f0000000000 + 64*i), Grid: [3]uint32{1, 1, 1},
		Block: [3]uint32{32, 1, 1},
	}
}

// cut cuts a sequence into batches.
func cut(ls []gpubackend.Launch) (lengths []int) {
	var batch []gpubackend.Launch
	for _, l := range ls {
		if batch = append(batch, l); Ends(batch) {
			lengths, batch = append(lengths, len(batch)), nil
		}
	}
	return lengths
}

func TestBatchesEndByWhatIsLaunched(t *testing.T) {
	var period []gpubackend.Launch
	for i := range 400 {
		period = append(period, launch(i))
	}
	one := cut(slices.Repeat(period, 3))
	two := cut(slices.Repeat(period, 6))
	if !slices.Equal(one, two[:len(one)]) {
		t.Errorf("cut into %v, and %v", one, two)
	}
	// From some period on the same batches come again.
	at, ends := 0, make([][]int, 6)
	for _, n := range two {
		at += n
		ends[(at-1)/len(period)] = append(ends[(at-1)/len(period)], (at-1)%len(period))
	}
	if !slices.Equal(ends[3], ends[4]) {
		t.Errorf("the period is cut at %v", ends)
	}
	sum := 0
	for _, n := range two {
		if sum += n; n < minEnd || n > MaxBatch {
			t.Errorf("a batch of %d", n)
		}
	}
	if mean := sum / len(two); mean < minEnd+8 || mean > minEnd+64 {
		t.Errorf("%d launches a batch", mean)
	}
	// A batch of one kernel alone ends as soon as it may, or only when it is full.
	alone := slices.Repeat([]gpubackend.Launch{launch(1)}, 10*MaxBatch)
	for _, n := range cut(alone) {
		if n != MaxBatch && n != minEnd {
			t.Errorf("one kernel is cut into %d", n)
		}
	}
}

func TestShapesDiffer(t *testing.T) {
	for name, change := range map[string]func(*gpubackend.Launch){
		"function": func(l *gpubackend.Launch) { l.Function++ },
		"grid":     func(l *gpubackend.Launch) { l.Grid[2]++ },
		"block":    func(l *gpubackend.Launch) { l.Block[1]++ },
		"shared":   func(l *gpubackend.Launch) { l.Shared++ },
		"size":     func(l *gpubackend.Launch) { l.Parameters = make([]byte, 8) },
	} {
		base, other := launch(1), launch(1)
		change(&other)
		if ShapeOf(&base) == ShapeOf(&other) || hash(&base) == hash(&other) {
			t.Errorf("another %s has the same shape or hash", name)
		}
	}
	base, same := launch(1), launch(1)
	same.Stream = 9
	if ShapeOf(&base) != ShapeOf(&same) || hash(&base) != hash(&same) {
		t.Error("the stream is a part of the shape")
	}
}

// slowCache is a cache without hashes: it compares whole batches.
type slowCache struct{ seen, known [][]Shape }

func shapes(ls []gpubackend.Launch) (s []Shape) {
	for i := range ls {
		s = append(s, ShapeOf(&ls[i]))
	}
	return s
}

func has(list [][]Shape, s []Shape) bool {
	return slices.ContainsFunc(list, func(x []Shape) bool { return slices.Equal(x, s) })
}

func (c *slowCache) choose(ls []gpubackend.Launch) int {
	n := min(len(ls), MaxBatch)
	if n < MinReplay {
		return 0
	}
	power := MinReplay
	for power*2 <= n {
		power *= 2
	}
	for _, list := range [][][]Shape{c.known, c.seen} {
		for _, length := range []int{n, power} {
			if has(list, shapes(ls[:length])) {
				return length
			}
		}
	}
	c.seen = append(c.seen, shapes(ls[:n]), shapes(ls[:power]))
	return 0
}

// TestCacheAgainstOracle sends random batches of few kernels, so that many come again.
func TestCacheAgainstOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	freed := 0
	c, slow := Cache[int]{Free: func(int) { freed++ }}, slowCache{}
	replays := 0
	for step := range 300 {
		ls := make([]gpubackend.Launch, r.IntN(40))
		from, period := r.IntN(3), 1+r.IntN(3)
		for i := range ls {
			ls[i] = launch(from + i%period)
		}
		n, want := c.Choose(ls), slow.choose(ls)
		if n != want {
			t.Fatalf("step %d: %d of %d, want %d", step, n, len(ls), want)
		}
		if n == 0 {
			continue
		}
		known := has(slow.known, shapes(ls[:n]))
		s := c.Find(ls[:n])
		if (s != nil) != known || s != nil && s.Graph != n {
			t.Fatalf("step %d: found %+v, want one: %v", step, s, known)
		}
		replays++
		if s == nil && c.Len() < maxGraphs-1 {
			c.Add(ls[:n], n, nil)
			slow.known = append(slow.known, shapes(ls[:n]))
		}
	}
	if replays < 50 {
		t.Errorf("only %d replays", replays)
	}
	graphs := c.Len()
	if c.Forget(); c.Len() != 0 || freed != graphs {
		t.Errorf("%d graphs are left, %d of %d freed", c.Len(), freed, graphs)
	}
	if n := c.Choose([]gpubackend.Launch{launch(1)}); n != 0 {
		t.Errorf("chose %d launches", n)
	}
}

func TestCacheIsBounded(t *testing.T) {
	freed := map[int]bool{}
	c := Cache[int]{Free: func(g int) { freed[g] = true }}
	batch := func(i int) []gpubackend.Launch {
		return slices.Repeat([]gpubackend.Launch{launch(i)}, MinReplay)
	}
	for i := range maxGraphs {
		c.Choose(batch(i))
		c.Add(batch(i), i, nil)
	}
	c.Choose(batch(0))
	c.Find(batch(0)) // used since
	c.Choose(batch(maxGraphs))
	c.Add(batch(maxGraphs), maxGraphs, nil)
	if c.Len() != maxGraphs || freed[0] || !freed[1] {
		t.Errorf("%d graphs, freed %v", c.Len(), freed)
	}
	for i := range 3 * maxNotes {
		if c.Choose(batch(1000 + i)); len(c.noted) > maxNotes+1 {
			t.Fatalf("%d batches are noted", len(c.noted))
		}
	}
	c.Choose(batch(0))
	if c.Remove(batch(0)); c.Len() != maxGraphs-1 || !freed[0] {
		t.Errorf("%d graphs, freed %v", c.Len(), freed)
	}
}

// TestSameHashIsNoMatch: shapes with the same hash are not taken for one another.
func TestSameHashIsNoMatch(t *testing.T) {
	c := Cache[int]{Free: func(int) {}}
	one, other := slices.Repeat([]gpubackend.Launch{launch(1)}, MinReplay),
		slices.Repeat([]gpubackend.Launch{launch(2)}, MinReplay)
	for i := range one {
		one[i].Hash, other[i].Hash = 7, 7
	}
	c.Choose(one)
	c.Add(one, 1, nil)
	if s := c.Find(other); s != nil {
		t.Errorf("found %+v", s)
	}
	if s := c.Find(one); s == nil {
		t.Error("not found")
	}
}

func BenchmarkChoose(b *testing.B) {
	c := Cache[int]{Free: func(int) {}}
	var ls []gpubackend.Launch
	for i := range MaxBatch {
		ls = append(ls, launch(i%5))
	}
	c.Choose(ls)
	c.Add(ls, 1, nil)
	b.ReportAllocs()
	for b.Loop() {
		for i := range ls {
			ls[i].Hash = 0
		}
		if c.Choose(ls) != len(ls) {
			b.Fatal("not chosen")
		}
	}
}
