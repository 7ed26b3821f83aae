// SPDX-License-Identifier: Apache-2.0

package hostgpus

import (
	"github.com/paracuda/paracuda/gpubackend/pcie"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// NVLink is a link of a GPU. The zero value isn't up.
type NVLink struct {
	Version      uint8        `json:"version,omitempty"`      // NVML's number; 0: it isn't up
	Capabilities uint8        `json:"capabilities,omitempty"` // bit n: NVML's capability n
	Speed        uint32       `json:"speed,omitempty"`        // in MB/s; 0: not known
	Named        bool         `json:"named,omitempty"`        // a field of NVML's is named after it
	Remote       uint8        `json:"remote,omitempty"`       // what is at its other end
	RemoteLink   uint8        `json:"remoteLink,omitempty"`   // its number there, plus 1
	At           pcie.Address `json:"at"`                     // where that is
}

// Fabric is the fabric of NVLinks that a GPU is part of, with NVML's numbers.
type Fabric struct {
	Cluster [16]byte `json:"cluster"` // all 0: none beyond the host
	Status  uint32   `json:"status"`
	Clique  uint32   `json:"clique"`
	Health  uint32   `json:"health"`
	State   uint8    `json:"state"`
	Summary uint8    `json:"summary"`
}

// describe adds it to what a guest process is told of the GPU.
func (f *Fabric) describe(d *wire.InventoryDevice) {
	if f == nil {
		return
	}
	d.FabricCluster, d.FabricStatus, d.FabricClique = f.Cluster, f.Status, f.Clique
	d.FabricHealth, d.FabricState, d.FabricSummary = f.Health, f.State, f.Summary
}

// Way is how a GPU may reach another one, or itself.
type Way struct {
	To string `json:"to"` // that GPU's UUID
	// NVML's status of each of its kinds of access, plus 1; 0: not known
	P2P [wire.P2pKinds]uint8 `json:"p2p"`
}

// What is at the other end, as NVML numbers it.
const (
	RemoteGPU     = 0
	RemoteSwitch  = 2
	RemoteUnknown = 255
)

// same says whether two GPUs are one.
func same(g *GPU, d *wire.InventoryDevice) bool { return g.UUID == UUID(d.Uuid) }

// DescribeWays adds what the host knows about NVLinks, fabrics and ways between its GPUs to what a
// guest process is told about its own. Links to GPUs that the process doesn't have aren't up. The
// pairs are those of an inventory.
func DescribeWays(devices []wire.InventoryDevice, pairs []wire.InventoryPair, host []GPU) {
	index := make(map[string]int, len(devices))
	for i := range devices {
		index[UUID(devices[i].Uuid)] = i
	}
	for _, g := range host {
		from, ok := index[g.UUID]
		if !ok {
			continue
		}
		for _, w := range g.Ways {
			if to, ok := index[w.To]; ok {
				pairs[from*len(devices)+to].P2p = w.P2P
			}
		}
	}
	describeLinks(devices, pairs, host)
}

func describeLinks(devices []wire.InventoryDevice, pairs []wire.InventoryPair, host []GPU) {
	ways := make([]ways, len(devices))
	for i := range devices {
		ways[i].to = make([]uint8, len(devices))
		for k := range host {
			if same(&host[k], &devices[i]) {
				ways[i].describe(devices, &devices[i], host[k].NVLinks)
				devices[i].NvlinkCommonSpeed = host[k].NVLinkSpeed
				host[k].Fabric.describe(&devices[i])
			}
		}
	}
	for k := range pairs {
		from, to := &ways[k/len(devices)], &ways[k%len(devices)]
		if from == to {
			continue
		}
		links := from.to[k%len(devices)] + min(from.switches, to.switches)
		if links > 0 && to.version > 0 {
			pairs[k].Links, pairs[k].LinkVersion = links, min(from.version, to.version)
		}
	}
}

// ways are where a GPU's links lead.
type ways struct {
	to                []uint8 // to each GPU
	switches, version uint8
}

// describe adds the links of a device.
func (w *ways) describe(all []wire.InventoryDevice, d *wire.InventoryDevice, links []NVLink) {
	d.Nvlinks = uint32(min(len(links), wire.Nvlinks))
	for n, l := range links[:d.Nvlinks] {
		if l.Version == 0 || !w.counts(all, &l) {
			continue
		}
		w.version = max(w.version, l.Version)
		d.NvlinkVersion[n], d.NvlinkCapabilities[n] = l.Version, l.Capabilities
		d.NvlinkSpeed[n], d.NvlinkRemote[n] = l.Speed, l.Remote
		d.NvlinkRemoteLink[n] = l.RemoteLink
		if l.Named {
			d.NvlinkNamed |= 1 << n
		}
		d.NvlinkPlace[n] = uint64(l.At.Domain)<<32 | uint64(l.At.Bus)<<8 | uint64(l.At.Device)
	}
}

// counts says whether a process is told about a link, and counts it.
func (w *ways) counts(all []wire.InventoryDevice, l *NVLink) bool {
	switch l.Remote {
	case RemoteSwitch:
		w.switches++
		return true
	case RemoteGPU:
		for i := range all {
			if Described(&all[i]).Place == l.At {
				w.to[i]++
				return true
			}
		}
	case RemoteUnknown:
		return true
	}
	return false
}
