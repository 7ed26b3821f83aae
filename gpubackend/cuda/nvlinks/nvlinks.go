// SPDX-License-Identifier: Apache-2.0

// Package nvlinks asks NVIDIA's driver how the host's GPUs are joined by NVLink, how they may reach
// one another, and how much of their memory is free, over NVML, which is opened at run time. The
// driver may hang with its GPU, or crash, so that this belongs in a process of its own.
//
// Files: nvlinks.go (what is asked), nvml_cgo.go (the calls).
package nvlinks

import (
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/pcie"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// DefaultLibrary is the name under which NVML is installed.
const DefaultLibrary = "libnvidia-ml.so.1"

// most is how many links a GPU of today has.
const most = 18

// NVML's numbers.
const (
	active       = 1
	capabilities = 6
	fieldSpeed   = 164 // NVML_FI_DEV_NVLINK_GET_SPEED
)

// Add fills in links, ways and free memory of GPUs that NVML knows. The error says why NVML can't
// be asked; what NVML doesn't tell stays empty.
func Add(library string, gpus []hostgpus.GPU) error {
	l, err := open(library)
	if err != nil {
		return err
	}
	devices := make(map[string]handle)
	for i := range gpus {
		if device, ok := l.device(gpus[i].UUID); ok {
			gpus[i].NVLinks, gpus[i].Free = l.links(device), l.free(device)
			devices[gpus[i].UUID] = device
		}
	}
	for i := range gpus {
		if device, ok := devices[gpus[i].UUID]; ok {
			gpus[i].Ways = l.ways(device, gpus, devices)
		}
	}
	return nil
}

// ways asks how a GPU may reach each GPU, itself included, which NVML answers, too.
func (l *library) ways(from handle, gpus []hostgpus.GPU, devices map[string]handle,
) (list []hostgpus.Way) {
	for i := range gpus {
		to, known := devices[gpus[i].UUID]
		if !known {
			continue
		}
		way := hostgpus.Way{To: gpus[i].UUID}
		for kind := range way.P2P {
			if status, ok := l.p2p(from, to, uint32(kind)); ok && status < 255 {
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
func (l *library) links(device handle) (list []hostgpus.NVLink) {
	for n := range uint32(most) {
		state, ok := l.state(device, n)
		if !ok {
			break
		}
		var link hostgpus.NVLink
		if state == active {
			link = l.link(device, n)
		}
		list = append(list, link)
	}
	return list
}

// link asks about a link that is up.
func (l *library) link(device handle, n uint32) (link hostgpus.NVLink) {
	version, ok := l.version(device, n)
	if !ok || version == 0 || version > 255 {
		return link // of no use if its other end isn't known
	}
	link.Version, link.Speed = uint8(version), l.field(device, fieldSpeed, n)
	for c := range uint32(capabilities) {
		if l.capable(device, n, c) {
			link.Capabilities |= 1 << c
		}
	}
	link.Remote = hostgpus.RemoteUnknown
	domain, bus, dev, ok := l.remote(device, n)
	if kind, told := l.remoteType(device, n); ok && told && kind < hostgpus.RemoteUnknown {
		link.Remote = uint8(kind)
		link.At = pcie.Address{Domain: domain, Bus: bus & 0xff, Device: dev & 0xff}
	}
	return link
}
