/* Asks an exported header, as C99, C11 and C++17: header_user DEVICE UNITS SPEC ROWS prints "ROWS EXACT SCHEDULE" or "none". */
#include <stdio.h>
#include <stdlib.h>

#include "headnorm_tuned.h"

int main(int argc, char **argv)
{
    int exact = -1;
    const headnorm_row *row;
    if (argc != 5) return 2;
    row = headnorm_find(argv[1], atoi(argv[2]), argv[3], atoll(argv[4]), &exact);
    if (!row) {
        printf("none %d\n", exact);
        return headnorm_find(argv[1], atoi(argv[2]), argv[3], atoll(argv[4]), NULL) != NULL;
    }
    printf("%lld %d %s\n", row->rows, exact, row->schedule);
    return 0;
}
