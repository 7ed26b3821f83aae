// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"maps"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// streamAttributes are the values of a stream's attributes that were set. They are kept and told;
// none changes how streams run here.
type streamAttributes map[uint64][cudaabi.LaunchAttributeValueSize]byte

func (a streamAttributes) value(attr uint64) (
	value [cudaabi.LaunchAttributeValueSize]byte, result gpubackend.Result,
) {
	switch attr {
	case cudaabi.LaunchAttributeAccessPolicyWindow, cudaabi.LaunchAttributeSynchronizationPolicy,
		cudaabi.LaunchAttributeMemSyncDomainMap, cudaabi.LaunchAttributeMemSyncDomain:
	default:
		return value, gpubackend.InvalidValue
	}
	value, set := a[attr]
	if !set && attr == cudaabi.LaunchAttributeSynchronizationPolicy {
		cudaabi.LaunchAttributeValue(value[:]).SetSyncPolicy(cudaabi.SyncPolicyAuto)
	}
	if !set && attr == cudaabi.LaunchAttributeMemSyncDomainMap {
		value[1] = 1 // the remote domain; the default one is 0
	}
	return value, gpubackend.Success
}

// StreamGetAttribute implements gpubackend.Driver.
func (d *Device) StreamGetAttribute(h gpubackend.Stream, attr uint64, out []byte) gpubackend.Result {
	s, result := d.stream(h)
	if result != gpubackend.Success {
		return result
	}
	value, result := s.attributes.value(attr)
	if result == gpubackend.Success {
		copy(out, value[:])
	}
	return result
}

// StreamSetAttribute implements gpubackend.Driver.
func (d *Device) StreamSetAttribute(h gpubackend.Stream, attr uint64, value []byte) gpubackend.Result {
	s, result := d.stream(h)
	if result != gpubackend.Success {
		return result
	}
	kept, result := s.attributes.value(attr)
	if result != gpubackend.Success {
		return result
	}
	copy(kept[:], value)
	if s.attributes == nil {
		s.attributes = streamAttributes{}
	}
	s.attributes[attr] = kept
	return gpubackend.Success
}

// StreamCopyAttributes implements gpubackend.Driver.
func (d *Device) StreamCopyAttributes(dst, src gpubackend.Stream) gpubackend.Result {
	to, result := d.stream(dst)
	if result != gpubackend.Success {
		return result
	}
	from, result := d.stream(src)
	if result == gpubackend.Success {
		to.attributes = maps.Clone(from.attributes)
	}
	return result
}
