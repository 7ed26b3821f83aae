// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// waitsAs is how a stream waits, and setWaits says how it is to.
func (r *rig) waitsAs(t *testing.T, stream uint64) byte {
	t.Helper()
	clear(r.mem[wire.Bulk:][:cudaabi.LaunchAttributeValueSize])
	r.does(t, gpubackend.OpStreamGetAttribute, stream,
		cudaabi.LaunchAttributeSynchronizationPolicy, bulk, cudaabi.LaunchAttributeValueSize)
	return r.mem[wire.Bulk]
}

func (r *rig) setWaits(t *testing.T, stream uint64, policy byte) {
	t.Helper()
	value := make([]byte, cudaabi.LaunchAttributeValueSize)
	value[0] = policy
	r.gives(t, gpubackend.OpStreamSetAttribute, value, stream,
		cudaabi.LaunchAttributeSynchronizationPolicy)
}

// TestAttributesRestored: a stream has the attributes that were copied to it in the next worker,
// too.
func TestAttributesRestored(t *testing.T) {
	p := newPair(t)
	a := p.does(t, gpubackend.OpStreamCreateWithPriority, 0, 0)
	b := p.does(t, gpubackend.OpStreamCreateWithPriority, 1, 0)
	p.setWaits(t, a, 4)
	p.does(t, gpubackend.OpStreamCopyAttributes, b, a)
	p.setWaits(t, a, 2)
	before := p.rig.context
	p = p.again(t).again(t)
	defer p.end()
	p.rig.context = before
	if first, second := p.waitsAs(t, a), p.waitsAs(t, b); first != 2 || second != 4 {
		t.Errorf("the streams wait as %d and %d say, want 2 and 4", first, second)
	}
}
