// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"maps"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// next takes the next message that a device process gets.
func (r *rig) next(c *link.Conn) *link.Answer {
	r.Helper()
	var a link.Answer
	if _, err := c.Receive(&a, 0); err != nil {
		r.Fatal(err)
	}
	return &a
}

// set changes a policy as an operator.
func (r *rig) set(vm string, settings map[string]string) string {
	r.Helper()
	_, a := r.ask(link.Request{Kind: link.Set, Name: vm, Policy: settings})
	return a.Error
}

func TestTermsAreTold(t *testing.T) {
	r := newRig(t, map[string]policy.Policy{
		"fixed": {Time: turns.Policy{Weight: 7}, Memory: 8 << 30},
	})
	_, c := r.join("fixed", map[string]string{"weight": "9", "processes": "3"})
	if v := r.vm("fixed"); v.Policy["weight"] != "7" || v.Policy["processes"] != "3" || !v.Fixed {
		t.Errorf("%+v", v)
	}
	own := map[string]string{"weight": "10"}
	if err := c.Send(&link.Request{Kind: link.Set, Policy: own}); err != nil {
		t.Fatal(err)
	}
	if a := r.next(c); !a.Asked || !strings.Contains(a.Error, "paracuda set --vm fixed") {
		t.Errorf("a wish against the configuration: %+v", a)
	}
	if e := r.set("fixed", map[string]string{"memory": "4G", "weight": "8"}); e != "" {
		t.Error(e)
	}
	a := r.next(c)
	if a.Terms == nil || a.Terms.Policy["weight"] != "8" || !a.Terms.Fixed ||
		!maps.Equal(a.Terms.Bounds, map[string]string{"memory": "4G"}) {
		t.Errorf("after a change: %+v", a.Terms)
	}
	if err := r.a.SetTable(&policy.Table{}); err != nil {
		t.Fatal(err)
	}
	a = r.next(c)
	if a.Terms == nil || a.Terms.Policy["weight"] != "9" || a.Terms.Fixed ||
		len(a.Terms.Bounds) != 0 {
		t.Errorf("without a configuration: %+v", a.Terms)
	}
	if err := c.Send(&link.Request{Kind: link.Set, Policy: own}); err != nil {
		t.Fatal(err)
	}
	for a = r.next(c); !a.Asked; a = r.next(c) {
	}
	if a.Error != "" || a.Terms.Policy["weight"] != "10" {
		t.Errorf("a wish: %+v", a)
	}
}

func TestDefaultPolicy(t *testing.T) {
	r := newRig(t, nil)
	greedy := map[string]string{"weight": "10000", "class": "latency"}
	r.join("a", greedy)
	table := policy.Table{Default: &policy.Policy{Time: turns.Policy{Weight: 5}}}
	if err := r.a.SetTable(&table); err != nil {
		t.Fatal(err)
	}
	r.join("b", greedy)
	for _, v := range r.list() {
		if v.Policy["weight"] != "5" || v.Policy["class"] != "batch" {
			t.Errorf("VM %s has %v", v.Name, v.Policy)
		}
	}
}

func TestGuaranteesFit(t *testing.T) {
	r := newRig(t, nil)
	join := func(name, guarantee string) string {
		t.Helper()
		_, _, a := r.askJoin(name, []link.GPU{{Name: "gpu", Memory: 10 << 30}},
			map[string]string{"memory-guarantee": guarantee})
		return a.Error
	}
	if e := join("a", "6G"); e != "" {
		t.Fatal(e)
	}
	const want = "add up to 11G, and it has 10G"
	if e := join("b", "5G"); !strings.Contains(e, want) {
		t.Errorf("a VM too many: %q", e)
	}
	if e := join("b", "4G"); e != "" {
		t.Fatal(e)
	}
	e := r.set("b", map[string]string{"memory-guarantee": "5G", "weight": "7"})
	if !strings.Contains(e, want) {
		t.Errorf("a change: %q", e)
	}
	guarantee := func(bytes uint64) *policy.Table {
		return &policy.Table{VMs: map[string]policy.Policy{"a": {Guarantee: bytes}}}
	}
	err := r.a.SetTable(guarantee(7 << 30))
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a configuration: %v", err)
	}
	if v := r.vm("b"); v.Policy["weight"] != "100" || v.Policy["memory-guarantee"] != "4G" {
		t.Errorf("what was refused changed %v", v.Policy)
	}
	if err := r.a.SetTable(guarantee(5 << 30)); err != nil {
		t.Error(err)
	}
	if e := r.set("b", map[string]string{"memory-guarantee": "5G"}); e != "" {
		t.Error(e)
	}
}

// TestConfigurationGuarantees: where it decides, no device process has memory kept for its VM.
func TestConfigurationGuarantees(t *testing.T) {
	r := newRig(t, nil)
	if err := r.a.SetTable(&policy.Table{
		Default: &policy.Policy{}, VMs: map[string]policy.Policy{"named": {Guarantee: 2 << 30}},
	}); err != nil {
		t.Fatal(err)
	}
	conns := map[string]*link.Conn{}
	for _, name := range []string{"greedy", "named"} {
		_, c, a := r.askJoin(name, []link.GPU{{Name: "gpu", Memory: 10 << 30}},
			map[string]string{"memory-guarantee": "9G"})
		if a.Error != "" {
			t.Fatalf("%s: %s", name, a.Error)
		}
		conns[name] = c
	}
	for name, want := range map[string]string{"greedy": "", "named": "2G"} {
		if has := r.vm(name).Policy["memory-guarantee"]; has != want {
			t.Errorf("%s is guaranteed %q, want %q", name, has, want)
		}
	}
	wish := link.Request{Kind: link.Set, Policy: map[string]string{"memory-guarantee": "8G"}}
	if err := conns["greedy"].Send(&wish); err != nil {
		t.Fatal(err)
	}
	if a := r.next(conns["greedy"]); !a.Asked ||
		!strings.Contains(a.Error, "the arbiter's configuration sets it") {
		t.Errorf("a wish against the configuration: %+v", a)
	}
	if e := r.set("greedy", map[string]string{"memory-guarantee": "8G"}); e != "" {
		t.Errorf("the operator: %s", e)
	}
	if has := r.vm("greedy").Policy["memory-guarantee"]; has != "8G" {
		t.Errorf("after the operator's change: %q", has)
	}
}

// TestOneLiarAboutMemory: where two members tell how much a GPU has, one that says too much or too
// little changes nothing for others.
func TestOneLiarAboutMemory(t *testing.T) {
	for _, lie := range []uint64{1, 1 << 30, 1 << 50, 1<<64 - 1} {
		for liar := range 3 { // the first, second or last to join
			r := newRig(t, nil)
			join := func(name string, memory uint64, guarantee string) string {
				t.Helper()
				asked := map[string]string{}
				if guarantee != "" {
					asked["memory-guarantee"] = guarantee
				}
				_, _, a := r.askJoin(name, []link.GPU{{Name: "gpu", Memory: memory}}, asked)
				return a.Error
			}
			for i, name := range []string{"a", "b", "c"} {
				memory := uint64(10 << 30)
				if i == liar {
					memory = lie
				}
				if e := join(name, memory, ""); e != "" {
					t.Fatal(e)
				}
			}
			if e := join("much", 10<<30, "11G"); !strings.Contains(e, "and it has 10G") {
				t.Errorf("a lie of %d, VM %d's: 11G are guaranteed: %q", lie, liar, e)
			}
			if e := join("fits", 10<<30, "9G"); e != "" {
				t.Errorf("a lie of %d, VM %d's: 9G are refused: %s", lie, liar, e)
			}
			if e := join("lies", 1<<50, "2G"); !strings.Contains(e, "and it has 10G") {
				t.Errorf("a lie of %d, VM %d's: 2G more are guaranteed: %q", lie, liar, e)
			}
		}
	}
}

// TestNamesOfGPUsAreForgotten: who makes up GPUs keeps no other VM out for longer than he stays.
func TestNamesOfGPUsAreForgotten(t *testing.T) {
	r := newRig(t, nil)
	for range 2 {
		var gpus []link.GPU
		for i := range maxGPUs {
			gpus = append(gpus, link.GPU{Name: strings.Repeat("x", 1+i)})
		}
		_, c, a := r.askJoin("liar", gpus, nil)
		if a.Error != "" {
			t.Fatal(a.Error)
		}
		c.Close()
		r.await("it has left", func() bool { return len(r.list()) == 0 })
	}
	r.join("honest", nil)
}

// TestSwapIsForOneGPU: a VM whose memory can't move isn't told that it does.
func TestSwapIsForOneGPU(t *testing.T) {
	r := newRig(t, nil)
	join := func(name, mode string) string {
		t.Helper()
		_, _, a := r.askJoin(name, []link.GPU{{Name: "one"}, {Name: "two"}},
			map[string]string{"memory-mode": mode})
		return a.Error
	}
	const want = "it has 2 GPUs"
	if e := join("a", "swap"); !strings.Contains(e, want) {
		t.Errorf("a VM that joins: %q", e)
	}
	if e := join("a", "off"); e != "" {
		t.Fatal(e)
	}
	if e := r.set("a", map[string]string{"memory-mode": "swap"}); !strings.Contains(e, want) {
		t.Errorf("a change: %q", e)
	}
	table := policy.Table{Default: &policy.Policy{Mode: policy.ModeSwap}}
	if err := r.a.SetTable(&table); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a configuration: %v", err)
	}
	if mode := r.vm("a").Policy["memory-mode"]; mode == "swap" {
		t.Error("what was refused holds")
	}
}

// configure has the configuration say one thing of a VM.
func (r *rig) configure(vm, key, value string) string {
	r.Helper()
	var p policy.Policy
	if err := p.Set(key, value); err != nil {
		return err.Error()
	}
	if err := r.a.SetTable(&policy.Table{VMs: map[string]policy.Policy{vm: p}}); err != nil {
		return err.Error()
	}
	return ""
}

// mustHold says that a VM has a policy, and that its device process is told so.
func (r *rig) mustHold(vm string, c *link.Conn, key, value string) {
	r.Helper()
	if now := r.vm(vm).Policy[key]; now != value {
		r.Errorf("%s is %q, want %q", key, now, value)
	}
	for a := r.next(c); a.Terms == nil || a.Terms.Policy[key] != value &&
		a.Terms.Bounds[key] != value; a = r.next(c) {
	}
}

// TestEachPolicy can be changed by the VM's name while the VM runs, and by a configuration that
// names it; a value out of its bounds changes nothing, and the others stay.
func TestEachPolicy(t *testing.T) {
	r := newRig(t, nil)
	_, c, a := r.askJoin("vm", []link.GPU{{Name: "gpu", Memory: 80 << 30}}, nil)
	if a.Error != "" {
		t.Fatal(a.Error)
	}
	before := r.vm("vm").Policy
	for _, x := range []struct{ key, set, configured, bad string }{
		{"weight", "7", "8", "10001"},
		{"time-limit", "30", "40", "101"},
		{"class", "latency", "batch", "best"},
		{"turn", "2ms", "3ms", "2s"},
		{"memory", "8G", "9G", "8GB"},
		{"memory-guarantee", "2G", "3G", "-1"},
		{"processes", "5", "6", "65"},
	} {
		if e := r.set("vm", map[string]string{x.key: x.bad}); e == "" || strings.Contains(e, "\n") {
			t.Errorf("%s=%s: %q, want one line", x.key, x.bad, e)
		}
		if e := r.set("vm", map[string]string{x.key: x.set}); e != "" {
			t.Error(e)
		}
		r.mustHold("vm", c, x.key, x.set)
		if e := r.configure("vm", x.key, x.configured); e != "" {
			t.Error(e)
		}
		r.mustHold("vm", c, x.key, x.configured)
		if err := r.a.SetTable(&policy.Table{}); err != nil {
			t.Fatal(err)
		}
		if now := r.vm("vm").Policy; !maps.Equal(now, before) {
			t.Errorf("after %s: %v, want %v", x.key, now, before)
		}
	}
}
