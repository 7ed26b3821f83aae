// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
)

// Launch queues a kernel in one call of C, without allocating.
func (d *Device) Launch(l *gpubackend.Launch) gpubackend.Result {
	if len(l.Parameters) > driver.MaxParameterBytes ||
		len(l.Attributes) > driver.MaxLaunchAttributes*driver.LaunchAttributeBytes {
		return gpubackend.InvalidValue
	}
	attributes := d.Attributes(l.Attributes)
	if r := checkAttributes(attributes); r != gpubackend.Success {
		return r
	}
	var offsets []uint32
	if len(d.capturing) > 0 && wantsPointers(attributes) {
		offsets = d.offsets(l.Function, l.Parameters)
	}
	return d.failed(d.LaunchKernel(l, attributes, offsets))
}

// launchPlain queues kernels without attributes, as many as there is room for in one call of C, without allocating.
func (d *Device) launchPlain(ls []gpubackend.Launch) (queued int, r gpubackend.Result) {
	for queued < len(ls) {
		n := d.Pack(ls[queued:])
		if n == 0 {
			return queued, gpubackend.InvalidValue // there is room for one of any permitted size
		}
		d.Touch(ls[queued].Stream) // that of all
		done, r := d.Submit(n)
		queued += done
		if r != gpubackend.Success {
			return queued, d.failed(r)
		}
	}
	return queued, gpubackend.Success
}

func checkAttributes(attributes []byte) gpubackend.Result {
	if len(attributes)%driver.LaunchAttributeBytes != 0 {
		return gpubackend.InvalidValue
	}
	for ; len(attributes) > 0; attributes = attributes[driver.LaunchAttributeBytes:] {
		if !allowed.LaunchAttribute.Has(uint64(binary.LittleEndian.Uint32(attributes))) {
			return gpubackend.NotSupported
		}
	}
	return gpubackend.Success
}
