// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
)

const gib = 1 << 30

// threeGPUs have 80 GiB each. The second has less free.
func threeGPUs() []link.GPU {
	return []link.GPU{
		{Name: "GPU-0", Memory: 80 * gib, Free: 79 * gib},
		{Name: "GPU-1", Memory: 80 * gib, Free: 40 * gib},
		{Name: "GPU-2", Memory: 80 * gib, Free: 79 * gib},
	}
}

// choose asks for GPUs. What was chosen is kept until the connection is closed.
func (r *rig) choose(name string, count int, room uint64, wishes map[string]string) (
	*link.Conn, *link.Answer,
) {
	r.Helper()
	return r.ask(link.Request{Kind: link.Choose, Name: name, GPUs: threeGPUs(), Count: count,
		Room: room, Policy: wishes})
}

// joinOn has a VM join that was given room bytes on each of its GPUs.
func (r *rig) joinOn(
	name string, room uint64, gpus []link.GPU, wishes map[string]string,
) *link.Conn {
	r.Helper()
	_, c, a := r.askRoom(name, room, gpus, wishes)
	if a.Error != "" {
		r.Fatal(a.Error)
	}
	return c
}

func (r *rig) expect(what string, a *link.Answer, want ...int) {
	r.Helper()
	if a.Error != "" || !slices.Equal(a.Chosen, want) {
		r.Errorf("%s: GPUs %v, error %q; want %v", what, a.Chosen, a.Error, want)
	}
}

// TestChosenByWhatWasGiven: memory that VMs were given counts, whether they have taken it or not.
func TestChosenByWhatWasGiven(t *testing.T) {
	r := newRig(t, nil)
	_, a := r.choose("first", 1, 20*gib, nil)
	r.expect("an empty host", a, 0)
	// The first one hasn't joined, and hasn't allocated anything.
	second, a := r.choose("second", 1, 20*gib, nil)
	r.expect("another one at the same time", a, 2)
	_, a = r.choose("third", 2, 50*gib, nil)
	r.expect("what is left for two", a, 0, 2)
	if _, a := r.choose("fourth", 1, 60*gib, nil); !strings.Contains(a.Error, "0 of the host's 3") {
		t.Errorf("too much: GPUs %v, %q", a.Chosen, a.Error)
	}
	second.Close()
	r.await("what was kept for the second is free again", func() bool {
		c, a := r.choose("fifth", 1, 29*gib, nil)
		c.Close()
		return slices.Equal(a.Chosen, []int{1}) || slices.Equal(a.Chosen, []int{2})
	})
}

// TestGivenToMembers: what a VM that has joined may still take is kept for it.
func TestGivenToMembers(t *testing.T) {
	r := newRig(t, nil)
	all := threeGPUs()
	a := r.joinOn("a", 30*gib, all[:1], nil)
	r.joinOn("b", 0, all[2:], map[string]string{"memory-guarantee": "70G"})
	_, answer := r.choose("c", 1, 45*gib, nil)
	r.expect("beside one of 30 GiB", answer, 0)
	// What it has taken is no longer free: it isn't counted again.
	f := link.Figures{Memory: map[string]uint64{"window": 30 * gib}}
	if err := a.Send(&link.Request{Kind: link.Tell, Figures: &f}); err != nil {
		t.Fatal(err)
	}
	r.next(a) // its terms, or what it has had
	r.await("the figures are there", func() bool { return r.vm("a").Figures != nil })
	if v := r.vm("a"); v.Room != 30*gib {
		t.Errorf("a was given %d", v.Room)
	}
	_, answer = r.choose("c", 1, 79*gib, nil)
	r.expect("its memory is there already", answer, 0)
}

// TestChosenForNothing: VMs that start together, and name no size, get GPUs of their own.
func TestChosenForNothing(t *testing.T) {
	r := newRig(t, nil)
	for i, want := range []int{0, 2, 0, 2} {
		_, a := r.choose(fmt.Sprint("vm-", i), 1, 0, nil)
		r.expect(fmt.Sprint("VM ", i), a, want)
	}
	_, a := r.choose("vm-0", 1, 0, nil)
	r.expect("again by the same name", a, 0)
}

// TestExclusive: no other VM gets a GPU that a VM has alone, whoever comes first.
func TestExclusive(t *testing.T) {
	r := newRig(t, map[string]policy.Policy{"table": {Exclusive: policy.On}})
	on := map[string]string{"exclusive": "on"}
	all := threeGPUs()
	c := r.joinOn("alone", 0, all[:2], on)
	r.joinOn("shares", 0, all[2:], nil)
	for name, x := range map[string]struct {
		gpus   []link.GPU
		wishes map[string]string
		want   string
	}{
		"b":     {all[1:], nil, "GPU GPU-1 is VM alone's alone"},
		"c":     {all[2:], on, "VM shares has GPU GPU-2, too"},
		"table": {all[2:], nil, "VM shares has GPU GPU-2, too"},
	} {
		if _, _, a := r.askJoin(name, x.gpus, x.wishes); !strings.Contains(a.Error, x.want) {
			t.Errorf("%s: %q, want %q", name, a.Error, x.want)
		}
	}
	// A second device process of the same VM is told that the first one still runs.
	if _, _, a := r.askJoin("alone", all[:2], on); !strings.Contains(a.Error, "own --name") {
		t.Errorf("by the same name: %q", a.Error)
	}
	_, a := r.choose("d", 1, 0, nil)
	r.expect("one that nobody has alone", a, 2)
	if _, a := r.choose("d", 1, 0, on); a.Error == "" {
		t.Errorf("alone: %v, though each GPU has a VM", a.Chosen)
	}
	if e := r.set("shares", on); e != "" {
		t.Errorf("a VM that has its GPU alone already: %s", e)
	}
	if e := r.set("shares", map[string]string{"exclusive": "off"}); e != "" {
		t.Error(e)
	}
	r.joinOn("too", 0, all[2:], nil)
	if e := r.set("shares", on); !strings.Contains(e, "VM too has GPU GPU-2, too") {
		t.Errorf("a VM that shares is to have its GPU alone: %q", e)
	}
	c.Close()
	r.await("others may have the GPU", func() bool {
		_, _, a := r.askJoin("b", all[1:2], nil)
		return a.Error == ""
	})
}

// TestExclusiveWhileChosen: a VM has its GPUs alone once they are chosen, before it joins.
func TestExclusiveWhileChosen(t *testing.T) {
	r := newRig(t, nil)
	on := map[string]string{"exclusive": "on"}
	_, a := r.choose("alone", 2, 0, on)
	r.expect("two alone", a, 0, 2)
	for range 2 {
		_, a := r.choose("b", 1, 0, nil)
		r.expect("the one that is left", a, 1)
	}
	if _, a := r.choose("c", 1, 0, on); a.Error == "" {
		t.Errorf("alone, too: %v", a.Chosen)
	}
}

func TestBadChoices(t *testing.T) {
	r := newRig(t, nil)
	for name, q := range map[string]link.Request{
		"no name":   {GPUs: threeGPUs(), Count: 1},
		"none":      {Name: "x", GPUs: threeGPUs()},
		"less":      {Name: "x", GPUs: threeGPUs(), Count: -1},
		"more":      {Name: "x", GPUs: threeGPUs(), Count: 4},
		"of none":   {Name: "x", Count: 1},
		"too many":  {Name: "x", Count: 1, GPUs: make([]link.GPU, maxGPUs+1)},
		"a bad GPU": {Name: "x", Count: 1, GPUs: []link.GPU{{Name: "\x1b[2J"}}},
		"a bad policy": {
			Name: "x", Count: 1, GPUs: threeGPUs(), Policy: map[string]string{"a": ""},
		},
	} {
		q.Kind = link.Choose
		if _, a := r.ask(q); a.Error == "" || a.Chosen != nil {
			t.Errorf("%s: GPUs %v", name, a.Chosen)
		}
	}
	n := -1
	r.a.loop.do(func() { n = len(r.a.loop.claims) })
	if n != 0 {
		t.Errorf("%d are kept", n)
	}
}
