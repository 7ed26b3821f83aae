// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// TestStreamAttributes: an attribute is that of one stream until it is copied to another one.
func TestStreamAttributes(t *testing.T) {
	d := newDevice(t, Options{})
	primary(t, d)
	a, b := newStream(t, d, 0), newStream(t, d, 0)
	policy := func(s gpubackend.Stream) byte {
		out := make([]byte, cudaabi.LaunchAttributeValueSize)
		ok(t, d.StreamGetAttribute(s, cudaabi.LaunchAttributeSynchronizationPolicy, out))
		return out[0]
	}
	value := make([]byte, cudaabi.LaunchAttributeValueSize)
	value[0] = 4
	ok(t, d.StreamSetAttribute(a, cudaabi.LaunchAttributeSynchronizationPolicy, value))
	if policy(a) != 4 || policy(b) != cudaabi.SyncPolicyAuto {
		t.Errorf("policies %d and %d, want 4 and %d", policy(a), policy(b), cudaabi.SyncPolicyAuto)
	}
	ok(t, d.StreamCopyAttributes(b, a))
	value[0] = 2
	ok(t, d.StreamSetAttribute(a, cudaabi.LaunchAttributeSynchronizationPolicy, value))
	if policy(a) != 2 || policy(b) != 4 {
		t.Errorf("policies %d and %d, want 2 and 4", policy(a), policy(b))
	}
	for _, attr := range []uint64{0, 2, 11, 1 << 40} {
		if r := d.StreamSetAttribute(a, attr, value); r != gpubackend.InvalidValue {
			t.Errorf("attribute %d: %v", attr, r)
		}
	}
	if r := d.StreamGetAttribute(99, cudaabi.LaunchAttributeSynchronizationPolicy,
		value); r != gpubackend.InvalidHandle {
		t.Errorf("no stream: %v", r)
	}
}

// TestModuleFunctions: numbers name each function once.
func TestModuleFunctions(t *testing.T) {
	d := newDevice(t, Options{})
	primary(t, d)
	m := loadFile(t, d, "testdata/small.ptx")
	n, r := d.ModuleGetFunctionCount(m)
	ok(t, r)
	seen := map[gpubackend.Function]bool{}
	for i := range n {
		f, r := d.ModuleEnumerateFunctions(i, m)
		ok(t, r)
		seen[f] = true
	}
	if n == 0 || uint64(len(seen)) != n {
		t.Errorf("%d functions, %d of them distinct", n, len(seen))
	}
	if _, r := d.ModuleEnumerateFunctions(n, m); r != gpubackend.InvalidValue {
		t.Errorf("one too many: %v", r)
	}
	if _, r := d.ModuleGetFunctionCount(99); r != gpubackend.InvalidHandle {
		t.Errorf("no module: %v", r)
	}
}
