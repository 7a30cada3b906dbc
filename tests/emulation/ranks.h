// ranks.h - collectives of the emulation: several processes that meet in shared memory (README.md, "Ranks").
#pragma once

#include <stdint.h>
#include <memory>
#include <string>
#include "emulation.h"

namespace emu {

enum { ID_BYTES = 128, RANKS_MAX = 64 };
enum class element { F32, F64, BF16, I32, I64 };

struct collective {
    void *data;
    int64_t count;
    element type;
    bool maximum; // else the sum
    int32_t tag;
};

class group;

int library_version(); // 22809; 0: there is none

// The memory in which ranks meet, made by one of them; empty: an error text otherwise. It goes with the process.
std::string ranks_make_id(uint8_t id[ID_BYTES]);
// Waits until all have come: empty, or an error text; *timed_out: they have not all come.
std::string ranks_open(const uint8_t id[ID_BYTES], int rank, int world_size, double timeout_s, bool *timed_out,
    std::shared_ptr<group> *out);
void ranks_adopt(const std::shared_ptr<group> &g, size_t bytes);
cudaError_t ranks_enqueue(const std::shared_ptr<group> &g, const collective &c, cudaStream_t stream);
std::string ranks_health(const std::shared_ptr<group> &g); // empty: well
// Waits for the others for so long; what they have not come to by then ends as after ncclCommAbort.
void ranks_close(const std::shared_ptr<group> &g, double timeout_s);

} // namespace emu
