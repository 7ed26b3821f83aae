// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"maps"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// streamAttributes are the values of a stream's attributes that were set. They can be read back;
// none changes how streams run here.
type streamAttributes map[uint64][cudaabi.LaunchAttributeValueSize]byte

func (a streamAttributes) value(attr uint64) (
	value [cudaabi.LaunchAttributeValueSize]byte, result gpubackend.Result,
) {
	switch attr {
	case cudaabi.LaunchAttributeAccessPolicyWindow, cudaabi.LaunchAttributeSynchronizationPolicy,
		cudaabi.LaunchAttributePriority, cudaabi.LaunchAttributeMemSyncDomainMap,
		cudaabi.LaunchAttributeMemSyncDomain:
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
func (x *Streams) StreamGetAttribute(
	h gpubackend.Stream, attr uint64, out []byte,
) gpubackend.Result {
	s, result := x.Find(h)
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
func (x *Streams) StreamSetAttribute(
	h gpubackend.Stream, attr uint64, value []byte,
) gpubackend.Result {
	s, result := x.Find(h)
	if result != gpubackend.Success {
		return result
	}
	kept, result := s.attributes.value(attr)
	if result != gpubackend.Success {
		return result
	}
	copy(kept[:], value)
	if attr == cudaabi.LaunchAttributePriority {
		kept = priorityValue(uint64(cudaabi.LaunchAttributeValue(kept[:]).Priority()))
	}
	if s.attributes == nil {
		s.attributes = streamAttributes{}
	}
	s.attributes[attr] = kept
	return gpubackend.Success
}

// priorityValue is the attribute for a priority, which is cut to the range that there is.
func priorityValue(priority uint64) (value [cudaabi.LaunchAttributeValueSize]byte) {
	within := min(max(int64(priority), greatestPriority), leastPriority)
	cudaabi.LaunchAttributeValue(value[:]).SetPriority(int32(within))
	return value
}

// StreamCopyAttributes implements gpubackend.Driver.
func (x *Streams) StreamCopyAttributes(dst, src gpubackend.Stream) gpubackend.Result {
	to, result := x.Find(dst)
	if result == gpubackend.Success {
		result = x.admit(to)
	}
	if result != gpubackend.Success {
		return result
	}
	from, result := x.Find(src)
	if result == gpubackend.Success {
		result = x.admit(from)
	}
	if result == gpubackend.Success {
		to.attributes = maps.Clone(from.attributes)
	}
	return result
}
