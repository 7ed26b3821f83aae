// SPDX-License-Identifier: Apache-2.0

package nvml

// struct pn_fabric {
//	unsigned int version;
//	unsigned char cluster[16];
//	unsigned int status, clique;
//	unsigned char state;
//	unsigned int health;
//	unsigned char summary; // from version 3 on
// };
//
// static int pn_fabric(void *f, void *d, struct pn_fabric *out)
// { return ((int (*)(void *, struct pn_fabric *))f)(d, out); }
import "C"

// Fabric is the fabric of NVLinks that a GPU is part of, with NVML's numbers.
type Fabric struct {
	Cluster                [16]byte
	Status, Clique, Health uint32
	State, Summary         uint8
}

// The versions of the answer: its size, and its number above that.
const (
	fabricVersion2 = 36 | 2<<24
	fabricVersion3 = C.sizeof_struct_pn_fabric | 3<<24
)

// Fabric is the GPU's.
func (g GPU) Fabric() (Fabric, error) {
	f, err := g.library.find(fabricInfo)
	if err != nil {
		return Fabric{}, err
	}
	answer := C.struct_pn_fabric{version: fabricVersion3}
	r := C.pn_fabric(f, g.handle, &answer)
	if r == versionMismatch {
		answer = C.struct_pn_fabric{version: fabricVersion2}
		r = C.pn_fabric(f, g.handle, &answer)
	}
	fabric := Fabric{
		Status: uint32(answer.status), Clique: uint32(answer.clique),
		Health: uint32(answer.health),
		State:  uint8(answer.state), Summary: uint8(answer.summary),
	}
	for i, b := range answer.cluster {
		fabric.Cluster[i] = byte(b)
	}
	return fabric, fabricInfo.failed(int(r))
}
