// cmd_augment.c - `train augment CONFIG.ini --out SHEET.png`: a contact sheet of the augmented training pictures that
// the network sees (train/contact_sheet.h).

#include "base/log.h"
#include "command/commands.h"
#include "data/png.h"
#include "train/contact_sheet.h"

static ls_status write_sheet(const ls_args *args, const ls_config *cfg) {
    const ls_contact_sheet_options options = { .rows = args->rows, .columns = args->columns, .epoch = args->epoch };
    ls_contact_sheet sheet;
    LS_TRY(ls_contact_sheet_new(cfg, &options, &sheet));
    ls_status status = ls_command_check_output(cfg, "--out", args->output, "PNG picture", "\x89PNG*");
    LS_THEN(status, ls_png_write(args->output, sheet.shape, sheet.pixels));
    if (!ls_failed(status))
        ls_info("%s: %d training pictures, as they are and in epochs %lld to %lld", args->output, args->rows,
            (long long)args->epoch, (long long)args->epoch + args->columns - 1);
    ls_contact_sheet_free(&sheet);
    return status;
}

ls_status ls_cmd_augment(const ls_args *args, ls_comm *comm) {
    ls_config cfg;
    LS_TRY(ls_command_agree(comm, ls_command_configure(args, comm, &cfg)));
    return ls_command_agree(comm, ls_comm_get_info(comm)->rank == 0 ? write_sheet(args, &cfg) : LS_SUCCESS);
}
