typedef int ls_room_is_empty_yet;
