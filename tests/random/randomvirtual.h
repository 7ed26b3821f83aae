// SPDX-License-Identifier: Apache-2.0
// How randommemory.cu reserves addresses, and maps memory there.
#ifndef RANDOMVIRTUAL_H
#define RANDOMVIRTUAL_H

#include "randomranges.h"
#include <algorithm>

static CUmemAllocationProp properties() {
    CUmemAllocationProp p;
    memset(&p, 0, sizeof p);
    p.type = CUmemAllocationType(rarely(20) ? pick({0, 3, -1}) : 1);
    p.location.type = CUmemLocationType(rarely(20) ? pick({0, 7}) : 1);
    p.location.id = rarely(20) ? 9 : 0;
    p.requestedHandleTypes = CUmemAllocationHandleType(rarely(8) ? pick({1, 2, 8, 0x40}) : 0);
    p.allocFlags.compressionType = (unsigned char)(rarely(8) ? pick({1, 2}) : 0);
    p.allocFlags.gpuDirectRDMACapable = (unsigned char)rarely(10);
    p.allocFlags.usage = (unsigned short)(rarely(20) ? pick({1, 2}) : 0);
    call("  properties {%d %d %d %d %u %u %u}", int(p.type), int(p.location.type), p.location.id,
         int(p.requestedHandleTypes), p.allocFlags.compressionType,
         p.allocFlags.gpuDirectRDMACapable, p.allocFlags.usage);
    return p;
}

static void virtualMemory() {
    Mapping *m =
        mappings.empty() || rarely(20) ? nullptr : &mappings[below((unsigned)mappings.size())];
    CUmemGenericAllocationHandle h = handles.empty() || rarely(20) ? 0 : pick(handles);
    switch (below(9)) {
    case 0: {
        CUmemAllocationProp p = properties();
        size_t size = 99;
        int option = rarely(10) ? 2 : (int)below(2);
        call("cuMemGetAllocationGranularity %d", option);
        if (ended(cuMemGetAllocationGranularity(
                rarely(30) ? nullptr : &size, rarely(30) ? nullptr : &p,
                CUmemAllocationGranularity_flags(option))) == CUDA_SUCCESS)
            also("%zu", size);
        break;
    }
    case 1: {
        if (handles.size() > 4) return;
        CUmemAllocationProp p = properties();
        size_t size =
            rarely(8) ? pick({size_t(0), size_t(4096), granule + 1}) : granule * (1 + below(2));
        unsigned long long flags = rarely(20);
        call("cuMemCreate %zu %llu", size, flags);
        if (ended(cuMemCreate(rarely(30) ? nullptr : &h, size, rarely(30) ? nullptr : &p, flags)) ==
            CUDA_SUCCESS) {
            handles.push_back(named(h, "memory"));
            CUmemAllocationProp q;
            memset(&q, 0x33, sizeof q);
            call("cuMemGetAllocationPropertiesFromHandle %s", hn(h));
            if (ended(cuMemGetAllocationPropertiesFromHandle(&q, h)) == CUDA_SUCCESS)
                also("%d %d %d %d %u %u %u", int(q.type), int(q.requestedHandleTypes),
                     int(q.location.type), q.location.id, q.allocFlags.compressionType,
                     q.allocFlags.gpuDirectRDMACapable, q.allocFlags.usage);
        }
        break;
    }
    case 2: {
        if (mappings.size() > 3) return;
        size_t size =
            rarely(8) ? pick({size_t(0), size_t(4096), granule + 1}) : granule * (1 + below(3));
        size_t align =
            rarely(6) ? pick({size_t(1), size_t(3), granule, 2 * granule, size_t(1) << 30}) : 0;
        unsigned long long flags = rarely(20);
        CUdeviceptr d = 0;
        call("cuMemAddressReserve %zu %zu %llu", size, align, flags);
        if (ended(cuMemAddressReserve(rarely(30) ? nullptr : &d, size, align, 0, flags)) ==
            CUDA_SUCCESS) {
            std::string s = fresh("v");
            mappings.push_back({d, size, 0, 0}), region(d, size, s);
            also("%s %d", s.c_str(), !align || (align & (align - 1)) || d % align == 0);
        }
        break;
    }
    case 3: {
        if (m && m->used && !rarely(8)) return;
        CUdeviceptr at = m ? m->base + (rarely(10) ? 4096 : 0) : 0;
        size_t size = rarely(8) ? pick({size_t(0), size_t(4096), 2 * granule}) : granule,
               offset = rarely(10) ? pick({size_t(4096), granule}) : 0;
        unsigned long long flags = rarely(20);
        if (m && size > m->bytes) return;
        call("cuMemMap %s %zu %zu %s %llu", WHERE(at), size, offset, hn(h), flags);
        if (ended(cuMemMap(at, size, offset, h, flags)) == CUDA_SUCCESS)
            m->used = size, m->handle = h;
        break;
    }
    case 4: {
        CUmemAccessDesc a;
        memset(&a, 0, sizeof a);
        a.location.type = CUmemLocationType(rarely(12) ? pick({0, 2, 7}) : 1),
        a.location.id = rarely(15) ? 9 : 0;
        a.flags = CUmemAccess_flags(rarely(6) ? pick({0, 1, 2, 7}) : 3);
        CUdeviceptr at = m ? m->base : 0;
        size_t size = rarely(10) ? pick({size_t(0), size_t(4096)})
                      : m        ? (rarely(6) ? m->bytes : m->used)
                                 : granule;
        size_t count = rarely(15) ? 0 : 1;
        call("cuMemSetAccess %s %zu {%d %d %d} %zu", WHERE(at), size, int(a.location.type),
             a.location.id, int(a.flags), count);
        ended(cuMemSetAccess(at, size, rarely(30) ? nullptr : &a, count));
        break;
    }
    case 5: {
        if (!rarely(3)) return;
        // For a part of a page the driver returns success, even if nothing is mapped there.
        CUdeviceptr at = m ? m->base : 0;
        size_t size = rarely(8) ? 0 : m ? m->used : granule;
        call("cuMemUnmap %s %zu", WHERE(at), size);
        if (ended(cuMemUnmap(at, size)) == CUDA_SUCCESS && m) m->used = 0;
        break;
    }
    case 6: {
        if (!rarely(4)) return;
        CUdeviceptr at = m ? m->base : 0;
        size_t size = m ? (rarely(8) ? m->bytes / 2 : m->bytes) : granule;
        if (m && m->used && !rarely(3)) return;
        call("cuMemAddressFree %s %zu%s", WHERE(at), size, m && m->used ? " mapped" : "");
        if (ended(cuMemAddressFree(at, size)) == CUDA_SUCCESS)
            regions.erase(at), mappings.erase(mappings.begin() + (m - mappings.data()));
        break;
    }
    case 7: {
        if (!rarely(4)) return;
        call("cuMemRelease %s", hn(h));
        if (ended(cuMemRelease(h)) == CUDA_SUCCESS)
            names.erase((void *)(uintptr_t)h),
                handles.erase(std::find(handles.begin(), handles.end(), h));
        break;
    }
    default: {
        int fd = -1, type = rarely(5) ? pick({0, 2, 8, 99}) : 1;
        unsigned long long flags = rarely(15);
        call("cuMemExportToShareableHandle %s %d %llu", hn(h), type, flags);
        if (ended(cuMemExportToShareableHandle(&fd, h, CUmemAllocationHandleType(type), flags)) ==
                CUDA_SUCCESS &&
            fd >= 0)
            close(fd);
    }
    }
}

#endif
