// SPDX-License-Identifier: Apache-2.0

package nvml

// struct pn_pci {
//	char legacy[16];
//	unsigned int domain, bus, device, id, subsystem;
//	char text[32];
// };
// struct pn_field {
//	unsigned int field, scope;
//	long long timestamp, latency;
//	int type, result;
//	unsigned long long value;
// };
//
// static int pn_number(void *f, void *d, unsigned int link, unsigned int *out)
// { return ((int (*)(void *, unsigned int, unsigned int *))f)(d, link, out); }
// static int pn_capability(void *f, void *d, unsigned int link, unsigned int what,
//	unsigned int *out)
// { return ((int (*)(void *, unsigned int, unsigned int, unsigned int *))f)(d, link, what, out); }
// static int pn_remote(void *f, void *d, unsigned int link, struct pn_pci *out)
// { return ((int (*)(void *, unsigned int, struct pn_pci *))f)(d, link, out); }
// static int pn_fields(void *f, void *d, struct pn_field *one)
// { return ((int (*)(void *, int, struct pn_field *))f)(d, 1, one); }
import "C"

import "github.com/paracuda/paracuda/gpubackend/pcie"

// LinkState is whether a link is up: 1. After the last link there is an error.
func (g GPU) LinkState(link uint32) (uint32, error) { return g.number(linkState, link) }

// LinkVersion is the version of NVLink that a link has.
func (g GPU) LinkVersion(link uint32) (uint32, error) { return g.number(linkVersion, link) }

// LinkRemoteType is what is at the other end of a link, as NVML numbers it.
func (g GPU) LinkRemoteType(link uint32) (uint32, error) { return g.number(linkRemoteType, link) }

// number asks one of the functions that give a number for a link.
func (g GPU) number(of function, link uint32) (uint32, error) {
	f, err := g.library.find(of)
	if err != nil {
		return 0, err
	}
	var out C.uint
	err = of.failed(int(C.pn_number(f, g.handle, C.uint(link), &out)))
	return uint32(out), err
}

// LinkCapability is whether a link has a capability.
func (g GPU) LinkCapability(link, what uint32) (bool, error) {
	f, err := g.library.find(linkCapability)
	if err != nil {
		return false, err
	}
	var out C.uint
	err = linkCapability.failed(int(C.pn_capability(f, g.handle, C.uint(link), C.uint(what), &out)))
	return out != 0, err
}

// LinkRemote is where the other end of a link is, as NVML says.
func (g GPU) LinkRemote(link uint32) (pcie.Address, error) {
	f, err := g.library.find(linkRemote)
	if err != nil {
		return pcie.Address{}, err
	}
	var p C.struct_pn_pci
	err = linkRemote.failed(int(C.pn_remote(f, g.handle, C.uint(link), &p)))
	return pcie.Address{
		Domain: uint32(p.domain), Bus: uint32(p.bus), Device: uint32(p.device),
	}, err
}

// LinkField is the value of one of NVML's fields for a link.
func (g GPU) LinkField(field, link uint32) (uint64, error) {
	f, err := g.library.find(fieldValues)
	if err != nil {
		return 0, err
	}
	one := C.struct_pn_field{field: C.uint(field), scope: C.uint(link)}
	err = fieldValues.failed(int(C.pn_fields(f, g.handle, &one)))
	if err == nil {
		err = fieldValues.failed(int(one.result))
	}
	return uint64(one.value), err
}
