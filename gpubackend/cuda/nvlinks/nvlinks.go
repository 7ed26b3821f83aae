// SPDX-License-Identifier: Apache-2.0

// Package nvlinks asks NVIDIA's driver how the host's GPUs are joined by NVLink, of which fabric
// they are part, how they may reach one another, and how much of their memory is free, over NVML
// (package nvml), which is opened at run time. The driver may hang with its GPU, or crash, so that
// this belongs in a process of its own.
package nvlinks

import (
	"github.com/paracuda/paracuda/gpubackend/cuda/nvml"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/pcie"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// most is how many links a GPU of today has.
const most = 18

// NVML's numbers.
const (
	active       = 1
	capabilities = 6
	fieldSpeed   = 164 // NVML_FI_DEV_NVLINK_GET_SPEED
	fieldCommon  = 90  // NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON
	fieldRemote  = 146 // NVML_FI_DEV_NVLINK_REMOTE_NVLINK_ID
	// NVML_FI_DEV_NVLINK_SPEED_MBPS_L0 and L6, with those of the links after them: up to L5 and L11
	fieldFirst, fieldSixth = 84, 132
)

// Add fills in links, ways and free memory of GPUs that NVML knows. The error says why NVML can't
// be asked; what NVML doesn't tell stays empty.
func Add(library string, gpus []hostgpus.GPU) error {
	l, err := nvml.Open(library, nvml.Links)
	if err != nil {
		return err
	}
	known := make(map[string]nvml.GPU)
	for i := range gpus {
		gpu, err := l.WithUUID(gpus[i].UUID)
		if err != nil {
			continue
		}
		gpus[i].NVLinks, known[gpus[i].UUID] = links(gpu), gpu
		if speed, err := gpu.LinkField(fieldCommon, 0); err == nil {
			gpus[i].NVLinkSpeed = uint32(speed)
		}
		if fabric, err := gpu.Fabric(); err == nil {
			gpus[i].Fabric = (*hostgpus.Fabric)(&fabric)
		}
		if free, err := gpu.Free(); err == nil {
			gpus[i].Free = free
		}
	}
	for i := range gpus {
		if gpu, ok := known[gpus[i].UUID]; ok {
			gpus[i].Ways = ways(gpu, gpus, known)
		}
	}
	return nil
}

// ways asks how a GPU may reach each GPU, itself included, which NVML answers, too.
func ways(from nvml.GPU, gpus []hostgpus.GPU, known map[string]nvml.GPU) (list []hostgpus.Way) {
	for i := range gpus {
		to, ok := known[gpus[i].UUID]
		if !ok {
			continue
		}
		way := hostgpus.Way{To: gpus[i].UUID}
		for kind := range way.P2P {
			if status, err := from.P2P(to, uint32(kind)); err == nil && status < 255 {
				way.P2P[kind] = uint8(status) + 1
			}
		}
		if way.P2P != [wire.P2pKinds]uint8{} {
			list = append(list, way)
		}
	}
	return list
}

// links asks for all links of a GPU: as many as it has, up or not.
func links(gpu nvml.GPU) (list []hostgpus.NVLink) {
	for n := range uint32(most) {
		state, err := gpu.LinkState(n)
		if err != nil {
			break
		}
		var link hostgpus.NVLink
		if state == active {
			link = linkOf(gpu, n)
		}
		list = append(list, link)
	}
	return list
}

// named says whether NVML also tells a link's speed in the field that is named after the link.
func named(gpu nvml.GPU, n uint32) bool {
	field := fieldFirst + n
	switch {
	case n >= 12:
		return false
	case n >= 6:
		field = fieldSixth + n - 6
	}
	_, err := gpu.LinkField(field, 0)
	return err == nil
}

// linkOf asks about a link that is up.
func linkOf(gpu nvml.GPU, n uint32) (link hostgpus.NVLink) {
	version, err := gpu.LinkVersion(n)
	if err != nil || version == 0 || version > 255 {
		return link // of no use if its other end isn't known
	}
	link.Version = uint8(version)
	if speed, err := gpu.LinkField(fieldSpeed, n); err == nil {
		link.Speed = uint32(speed)
	}
	if number, err := gpu.LinkField(fieldRemote, n); err == nil && number < 255 {
		link.RemoteLink = uint8(number) + 1
	}
	link.Named = named(gpu, n)
	for c := range uint32(capabilities) {
		if has, err := gpu.LinkCapability(n, c); err == nil && has {
			link.Capabilities |= 1 << c
		}
	}
	link.Remote = hostgpus.RemoteUnknown
	at, err := gpu.LinkRemote(n)
	if err != nil {
		return link
	}
	if kind, err := gpu.LinkRemoteType(n); err == nil && kind < hostgpus.RemoteUnknown {
		link.Remote = uint8(kind)
		link.At = pcie.Address{Domain: at.Domain, Bus: at.Bus & 0xff, Device: at.Device & 0xff}
	}
	return link
}
