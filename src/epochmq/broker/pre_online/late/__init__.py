"""What a master takes back that is online already."""
