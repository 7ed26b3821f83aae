// SPDX-License-Identifier: Apache-2.0

package hostgpus

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/pcie"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// TestDescribeLinks: links to GPUs that a process doesn't have aren't up; those to switches are.
func TestDescribeLinks(t *testing.T) {
	at := func(bus uint32) pcie.Address { return pcie.Address{Domain: 1, Bus: bus} }
	link := func(remote uint8, bus uint32) NVLink {
		return NVLink{Version: 6, Capabilities: 5, Speed: 26562, Remote: remote, At: at(bus),
			RemoteLink: uint8(bus)}
	}
	devices := make([]wire.InventoryDevice, 3)
	host := make([]GPU, 3)
	for i := range devices {
		devices[i].Uuid[0] = byte(i)
		devices[i].Attribute[cudaabi.DeviceAttributePCIDomainID] = 1
		devices[i].Attribute[cudaabi.DeviceAttributePCIBusID] = int32(10 + i)
		host[i].UUID = UUID(devices[i].Uuid)
	}
	host[0].NVLinks = []NVLink{link(RemoteSwitch, 99), link(RemoteGPU, 11), link(RemoteGPU, 13), {},
		link(RemoteSwitch, 98), link(RemoteUnknown, 0)}
	host[1].NVLinks = []NVLink{link(RemoteSwitch, 99), link(RemoteGPU, 10)}
	pairs := make([]wire.InventoryPair, 9)
	DescribeWays(devices, pairs, host)
	d := &devices[0]
	if d.Nvlinks != 6 || [6]byte(d.NvlinkVersion[:]) != [6]byte{6, 6, 0, 0, 6, 6} ||
		[6]byte(d.NvlinkRemote[:]) != [6]byte{2, 0, 0, 0, 2, 255} ||
		d.NvlinkRemoteLink[1] != 11 || d.NvlinkRemoteLink[2] != 0 ||
		d.NvlinkPlace[1] != 1<<32|11<<8 || d.NvlinkPlace[2] != 0 || d.NvlinkSpeed[0] != 26562 ||
		d.NvlinkCapabilities[4] != 5 {
		t.Errorf("%d links: %v, %v, %x, %v, %v", d.Nvlinks, d.NvlinkVersion, d.NvlinkRemote,
			d.NvlinkPlace, d.NvlinkSpeed, d.NvlinkCapabilities)
	}
	for i, want := range []uint8{0, 2, 0, 2, 0, 0, 0, 0, 0} {
		if pairs[i].Links != want || (pairs[i].LinkVersion == 6) != (want != 0) {
			t.Errorf("from %d to %d: %d links of version %d", i/3, i%3, pairs[i].Links,
				pairs[i].LinkVersion)
		}
	}
}

// TestDescribeWays: a process is told what NVML says of its own GPUs, as far as that is known.
func TestDescribeWays(t *testing.T) {
	devices := make([]wire.InventoryDevice, 2)
	host := make([]GPU, 3)
	for i := range host {
		var uuid [16]byte
		uuid[0] = byte(i)
		host[i].UUID = UUID(uuid)
	}
	// The process has the host's last GPU and the first one, in this order.
	devices[0].Uuid[0] = 2
	way := func(to int, first uint8) Way {
		return Way{To: host[to].UUID, P2P: [wire.P2pKinds]uint8{first, 1, 1, 1, 0}}
	}
	host[0].Ways = []Way{way(0, 6), way(1, 2), way(2, 3)}
	host[1].Ways = []Way{way(0, 9), way(2, 9)}
	host[2].Ways = []Way{way(1, 4)}
	pairs := make([]wire.InventoryPair, 4)
	DescribeWays(devices, pairs, host)
	for i, want := range []uint8{0, 0, 3, 6} {
		if got := pairs[i].P2p; got[0] != want || (got[1] == 1) != (want != 0) {
			t.Errorf("from %d to %d: %v, want %d", i/2, i%2, got, want)
		}
	}
}

// TestDescribeFabric: a GPU of which the driver tells no fabric has none.
func TestDescribeFabric(t *testing.T) {
	devices := make([]wire.InventoryDevice, 2)
	devices[1].Uuid[0] = 1
	fabric := Fabric{
		Cluster: [16]byte{15: 9}, Status: 1, Clique: 2, Health: 3, State: 4, Summary: 5,
	}
	DescribeWays(devices, make([]wire.InventoryPair, 4), []GPU{
		{UUID: UUID(devices[0].Uuid)},
		{UUID: UUID(devices[1].Uuid), Fabric: &fabric, NVLinkSpeed: 26000,
			NVLinks: []NVLink{{Version: 6, Remote: RemoteSwitch}, {Version: 6, Named: true,
				Remote: RemoteSwitch}, {Version: 6, Named: true, Remote: RemoteGPU,
				At: pcie.Address{Bus: 99}}}},
	})
	d := &devices[1]
	told := Fabric{d.FabricCluster, d.FabricStatus, d.FabricClique, d.FabricHealth, d.FabricState,
		d.FabricSummary}
	if told != fabric || d.NvlinkCommonSpeed != 26000 || d.NvlinkNamed != 1<<1 {
		t.Errorf("fabric %+v, links of %d MB/s, %b of them named; want %+v, 26000, 10", told,
			d.NvlinkCommonSpeed, d.NvlinkNamed, fabric)
	}
	if d := &devices[0]; d.FabricState != 0 || d.NvlinkCommonSpeed != 0 || d.NvlinkNamed != 0 {
		t.Errorf("of a GPU whose fabric isn't known something is told: state %d", d.FabricState)
	}
}

// TestManyLinks: more than there is room for are left out.
func TestManyLinks(t *testing.T) {
	devices := make([]wire.InventoryDevice, 1)
	many := make([]NVLink, wire.Nvlinks+1)
	for i := range many {
		many[i] = NVLink{Version: 6, Remote: RemoteSwitch}
	}
	DescribeWays(devices, make([]wire.InventoryPair, 1),
		[]GPU{{UUID: UUID(devices[0].Uuid), NVLinks: many}})
	if devices[0].Nvlinks != wire.Nvlinks {
		t.Errorf("%d links", devices[0].Nvlinks)
	}
}
